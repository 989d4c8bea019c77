// Implements common/cli.hpp without CLI11, which needs files and exceptions. The messages are the
// same. There is no --help.

#include "common/cli.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "common/error.hpp"

namespace fa {

struct Cli::Impl {
  struct Option {
    bool takes_value = true;
    const char* type = "TEXT";  // name of the value's type, for messages
    int count = 0;
    std::function<void(const std::string&)> take;
  };
  std::map<std::string, Option> options;
  std::vector<std::pair<std::string, std::string*>> positionals;
  std::vector<std::pair<std::string, std::unique_ptr<Cli>>> commands;
  std::vector<std::function<void()>> conversions;  // run after parsing, in the order of declaration
};

Cli::Cli(const std::string&, const std::string&) : impl_(std::make_unique<Impl>()) {}
Cli::Cli(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Cli::~Cli() = default;

Cli& Cli::command(const std::string& name, const std::string&) {
  impl_->commands.emplace_back(name, new Cli(std::make_unique<Impl>()));
  return *impl_->commands.back().second;
}

void Cli::optional_command() {}  // all programs here call it

void Cli::text(const std::string& option, std::string& target, const std::string&) {
  impl_->options[option].take = [&target](const std::string& value) { target = value; };
}

void Cli::input_file(const std::string& option, std::string& target, const std::string& help) {
  text(option, target, help);
}

void Cli::output_file(const std::string& option, std::string& target, const std::string& help) {
  text(option, target, help);
}

void Cli::choice(const std::string& option, std::string& target,
                 const std::vector<std::string>& accepted, const std::string& help) {
  text(option, target, help);
  impl_->conversions.push_back([=, this, &target] {
    if (!given(option)) return;
    std::string listed;
    for (const std::string& name : accepted) {
      if (target == name) return;
      listed += (listed.empty() ? "" : ", ") + name;
    }
    throw InputError(option + " " + shown(target) + ": accepted: " + listed);
  });
}

void Cli::texts(const std::string& option, std::vector<std::string>& target, const std::string&) {
  impl_->options[option].take = [&target](const std::string& value) { target.push_back(value); };
}

void Cli::integer(const std::string& option, int64_t& target, int64_t minimum, int64_t maximum,
                  const std::string& help) {
  const auto raw = std::make_shared<std::string>();
  text(option, *raw, help);
  impl_->options[option].type = "N";
  impl_->conversions.push_back([=, this, &target] {
    if (given(option)) target = parse_integer(*raw, option, minimum, maximum);
  });
}

void Cli::real(const std::string& option, double& target, const std::string& help) {
  const auto raw = std::make_shared<std::string>();
  text(option, *raw, help);
  impl_->options[option].type = "X";
  impl_->conversions.push_back([=, this, &target] {
    if (given(option)) target = parse_real(*raw, option);
  });
}

void Cli::flag(const std::string& option, bool& target, const std::string&) {
  Impl::Option& declared = impl_->options[option];
  declared.takes_value = false;
  declared.take = [&target](const std::string&) { target = true; };
}

void Cli::positional(const std::string& name, std::string& target, const std::string&) {
  impl_->positionals.emplace_back(name, &target);
}

void Cli::unlist(const std::string&) {}  // there is no --help here

bool Cli::given(const std::string& option) const {
  const auto found = impl_->options.find(option);
  return found != impl_->options.end() && found->second.count > 0;
}

std::string Cli::parse(int argc, char** argv) {
  const std::string help = " (--help lists what is accepted)";
  size_t positional = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& [name, command] : impl_->commands) {
      if (name != argv[i]) continue;
      for (const auto& [option, one] : impl_->options) {
        if (one.count == 0) continue;
        throw InputError(option + " before " + name + ": " + name +
                         " takes only options that come after it (" + name + " --help lists it)");
      }
      command->parse(argc - i, argv + i);
      return name;
    }
    const auto found = impl_->options.find(argv[i]);
    if (found == impl_->options.end() && argv[i][0] != '-' &&
        positional < impl_->positionals.size()) {
      *impl_->positionals[positional++].second = argv[i];
      continue;
    }
    if (found == impl_->options.end()) {
      throw InputError("The following argument was not expected: " + std::string(argv[i]) + help);
    }
    Impl::Option& option = found->second;
    ++option.count;
    if (option.takes_value && i + 1 == argc) {
      throw InputError(found->first + ": 1 required " + option.type + " missing" + help);
    }
    option.take(option.takes_value ? argv[++i] : "");
  }
  if (positional < impl_->positionals.size()) {
    throw InputError(impl_->positionals[positional].first + " is required" + help);
  }
  for (const auto& convert : impl_->conversions) convert();
  return "";
}

}  // namespace fa
