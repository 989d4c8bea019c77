#include "common/cli.hpp"

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <sstream>

#include "common/error.hpp"
#include "common/file.hpp"
#include "common/words.hpp"

namespace fa {

struct Cli::Impl {
  std::unique_ptr<CLI::App> owned;  // top level only, which owns the subcommands
  CLI::App* app;
  std::vector<std::unique_ptr<Cli>> commands;
  std::vector<std::function<void()>> conversions;  // run after parsing, because our conversions are
                                                   // strict and have their own error messages
  struct File {
    std::string option;
    const std::string* path;
    bool written;
  };
  std::vector<File> files;

  // Does what CLI11 does not do itself after it has parsed the arguments.
  void finish() const {
    for (const auto& convert : conversions) convert();
    std::vector<FileArgument> given;
    for (const File& file : files) {
      if (app->count(file.option) > 0) given.push_back({file.option, *file.path, file.written});
    }
    check_files(given);
  }
};

Cli::Cli(const std::string& program, const std::string& about) : impl_(std::make_unique<Impl>()) {
  impl_->owned = std::make_unique<CLI::App>(about, program);
  impl_->app = impl_->owned.get();
}

Cli::Cli(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cli::~Cli() = default;

Cli& Cli::command(const std::string& name, const std::string& about) {
  auto impl = std::make_unique<Impl>();
  impl->app = impl_->app->add_subcommand(name, about);
  impl_->app->require_subcommand(1);
  impl_->commands.push_back(std::unique_ptr<Cli>(new Cli(std::move(impl))));
  return *impl_->commands.back();
}

void Cli::optional_command() { impl_->app->require_subcommand(0, 1); }

void Cli::text(const std::string& option, std::string& target, const std::string& help) {
  impl_->app->add_option(option, target, help)->type_name("TEXT");
}

void Cli::input_file(const std::string& option, std::string& target, const std::string& help) {
  text(option, target, help);
  impl_->files.push_back({option, &target, false});
}

void Cli::output_file(const std::string& option, std::string& target, const std::string& help) {
  text(option, target, help);
  impl_->files.push_back({option, &target, true});
}

void Cli::choice(const std::string& option, std::string& target,
                 const std::vector<std::string>& accepted, const std::string& help) {
  std::string listed;
  for (const std::string& name : accepted) listed += (listed.empty() ? "" : ", ") + name;
  text(option, target, help + " (" + listed + ")");
  impl_->conversions.push_back([=, this, &target] {
    if (!given(option)) return;
    for (const std::string& name : accepted) {
      if (target == name) return;
    }
    throw InputError(option + " " + shown(target) + ": accepted: " + listed);
  });
}

void Cli::texts(const std::string& option, std::vector<std::string>& target,
                const std::string& help) {
  // One value per occurrence, so that `--break a b` does not swallow a positional.
  impl_->app->add_option(option, target, help)->type_name("TEXT")->expected(1)->take_all();
}

void Cli::integer(const std::string& option, int64_t& target, int64_t minimum, int64_t maximum,
                  const std::string& help) {
  const auto raw = std::make_shared<std::string>();
  impl_->app->add_option(option, *raw, help)->type_name("N");
  impl_->conversions.push_back([=, this, &target] {
    if (given(option)) target = parse_integer(*raw, option, minimum, maximum);
  });
}

void Cli::real(const std::string& option, double& target, const std::string& help) {
  const auto raw = std::make_shared<std::string>();
  impl_->app->add_option(option, *raw, help)->type_name("X");
  impl_->conversions.push_back([=, this, &target] {
    if (given(option)) target = parse_real(*raw, option);
  });
}

void Cli::flag(const std::string& option, bool& target, const std::string& help) {
  impl_->app->add_flag(option, target, help);
}

void Cli::positional(const std::string& name, std::string& target, const std::string& help) {
  impl_->app->add_option(name, target, help)->required()->type_name("");
}

void Cli::unlist(const std::string& option) { impl_->app->get_option(option)->group(""); }

bool Cli::given(const std::string& option) const { return impl_->app->count(option) > 0; }

std::string Cli::parse(int argc, char** argv) {
  try {
    impl_->app->parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    std::ostringstream text;
    const int code = impl_->app->exit(help, text);
    std::cout << wrapped(text.str());
    std::exit(output_is_written() ? code : kBadInput);
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> words;
    CLI::App* app = impl_->app;
    for (const CLI::App* each : app->get_subcommands(nullptr)) words.push_back(each->get_name());
    if (!app->get_subcommands().empty()) app = app->get_subcommands()[0];
    for (const CLI::Option* option : app->get_options()) words.push_back(option->get_name());
    const std::string unknown = impl_->app->remaining(true)[0];
    throw InputError("The following argument was not expected: " + unknown +
                     did_you_mean(unknown, words) + " (--help lists what is accepted)");
  } catch (const CLI::ParseError& error) {
    std::string what = error.what();
    for (char& c : what) {
      if (c == '\n') c = ' ';
    }
    throw InputError(what + " (--help lists what is accepted)");
  }
  impl_->finish();
  for (const auto& command : impl_->commands) {
    if (!command->impl_->app->parsed()) continue;
    std::string name = command->impl_->app->get_name();
    for (const CLI::Option* option : impl_->app->get_options()) {
      if (option->count() == 0) continue;
      throw InputError(option->get_name() + " before " + name + ": " + name +
                       " takes only options that come after it (" + name + " --help lists it)");
    }
    command->impl_->finish();
    return name;
  }
  return "";
}

}  // namespace fa
