// In chapter 24, chapter 20's GPT answers prompts, several at a time.
//
//   ch24_serve_a_gpt                                      trains for 10 s, then answers 7 prompts
//   ch24_serve_a_gpt --checkpoint F --prompts FILE        one prompt per line
//   echo "The idea: " | ch24_serve_a_gpt --checkpoint F --stdin --draft 4
//   ch24_serve_a_gpt --checkpoint F --device emulator --json report.json
//
// The verdict compares every token with the same model in float64, without a cache.
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "breaks/ch24_serve_a_gpt.hpp"
#include "chapters/11_decoding/chapter.hpp"
#include "chapters/20_train_a_gpt/checkpoint.hpp"
#include "chapters/20_train_a_gpt/text.hpp"
#include "common/cli.hpp"
#include "common/error.hpp"
#include "common/file.hpp"
#include "common/gpu/runtime.hpp"
#include "common/json_report.hpp"
#include "common/program.hpp"
#include "server.hpp"
#include "verdict.hpp"

namespace fa::ch24 {
namespace {

// Largest accepted error of a log-probability. In fp32 we measured 2e-5. The kernels round Q, K, V,
// P and O to bf16. In NumPy this moves a log-probability of the lesson's model by up to 0.33
// (docs/measurements/serving.py rounding).
constexpr double kBound = 1e-4, kKernelBound = 0.4;

constexpr const char* kPrompts =
    "In this chapter a warp\nIn this chapter a tile\nThe last page shows the\n"
    "In this chapter the rows\nThe last page shows a\nIn this chapter a thread\n"
    "In this chapter a warp\n";

struct Options {
  std::string checkpoint, prompts, text, device = "cpu", json;
  bool standard_input = false, no_sharing = false;
  std::vector<std::string> breaks;
  int64_t steps = 300, wanted = 40, every = 2;
  ServerOptions server;
};

void declare(Cli& cli, Options& options) {
  ServerOptions& server = options.server;
  cli.input_file("--checkpoint", options.checkpoint,
                 "a model that ch20_train_a_gpt trained [trains one]");
  cli.integer("--steps", options.steps, 1, 1'000'000,
              "steps of training, without --checkpoint [300]");
  cli.input_file("--text", options.text, "to learn from, without --checkpoint [the lessons]");
  cli.input_file("--prompts", options.prompts,
                 "file in UTF-8, one prompt per line [seven prompts]");
  cli.flag("--stdin", options.standard_input, "read the prompts from standard input");
  cli.integer("--new", options.wanted, 1, 1 << 17, "characters per answer [40]");
  cli.integer("--every", options.every, 0, 1 << 17, "steps between two arrivals [2]");
  cli.integer("--batch", server.batch, 1, 1024, "most requests that run at a time [4]");
  cli.integer("--pages", server.pages, 1, 1 << 20, "pages of the cache [24]");
  cli.integer("--page-size", server.page_size, 1, 256, "tokens per page [8]");
  cli.integer("--draft", server.draft, 0, 64, "most characters that a draft guesses [0]");
  cli.flag("--no-sharing", options.no_sharing, "every request has its own pages");
  cli.choice("--device", options.device, {"cpu", "gpu", "emulator", "auto"},
             "where attention is: CPU in fp32, kernels in bf16; auto: gpu or emulator [cpu]");
  cli.output_file("--json", options.json, "write the report to this file");
  cli.texts("--break", options.breaks,
            "switch one load-bearing line off, and run the input that shows it");
}

// Returns "cpu", "emulator" or "gpu".
std::string choose_device(const std::string& wanted) {
  const std::string problem = gpu_problem(*::ch11::KERNEL.gpu);
  if (wanted == "gpu" && !problem.empty()) {
    throw InputError("--device gpu: " + problem + "; --device emulator runs here");
  }
  return wanted != "auto" ? wanted : problem.empty() ? "gpu" : "emulator";
}

// Trains chapter 20's model for contexts of 128 characters.
ch20::TrainingState train(const Options& options, const Invocation& call) {
  const std::string what = options.text.empty() ? "the lessons" : options.text;
  const std::u32string text =
      ch20::decode_utf8(options.text.empty() ? ch20::lessons() : read_file(options.text), what);
  ch20::Recipe recipe;
  recipe.model.context = 128;
  recipe.batch = 4;
  const ch20::Vocabulary vocabulary = ch20::Vocabulary::of(text);
  ch20::TrainingState state = ch20::start_training(recipe, vocabulary, text, 0);
  const std::vector<int32_t> tokens = vocabulary.tokens(text, what);
  ch20::Trainer trainer(state, tokens, {"tiled"});
  if (!call.silent) std::cout << call.heading << std::flush;
  for (int64_t step = 1; step <= options.steps; ++step) {
    const double loss = trainer.step();
    if (call.silent || (step != 1 && step % 100 != 0 && step != options.steps)) continue;
    std::printf("training step %lld of %lld, loss %.2f\n", static_cast<long long>(step),
                static_cast<long long>(options.steps), loss);
    std::fflush(stdout);
  }
  return state;
}

std::vector<Request> requests_of(const Options& options, const ch20::TrainingState& trained) {
  const std::string what = options.standard_input    ? "standard input"
                           : options.prompts.empty() ? "the built-in prompts"
                                                     : options.prompts;
  std::string bytes = kPrompts;
  if (options.standard_input) {
    std::ostringstream all;
    all << std::cin.rdbuf();
    bytes = all.str();
  } else if (!options.prompts.empty()) {
    bytes = read_file(options.prompts);
  }
  const ch20::Vocabulary vocabulary(trained.vocabulary);
  std::vector<Request> requests;
  std::istringstream lines(bytes);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const int64_t number = std::ssize(requests);
    const Tokens prompt = vocabulary.tokens(ch20::decode_utf8(line, what), what);
    requests.push_back({.number = number,
                        .arrival = number * options.every,
                        .tokens = prompt,
                        .prompt_length = std::ssize(prompt),
                        .wanted = options.wanted});
  }
  if (requests.empty()) throw InputError(what + ": expected at least one line with a prompt");
  return requests;
}

// ---- output ----

void print_heading() {
  std::cout << "\nstep run wait new   pages shared " << (times_hidden() ? "" : "   ms  tok/s ")
            << " what happened\n";
}

// Prints a row for each step in which something happened, and for every tenth.
void print(const Step& step, int64_t pages) {
  if (step.events.empty() && step.number % 10 != 0) return;
  char row[96];
  int width =
      std::snprintf(row, sizeof row, "%4lld %3lld %4lld %3lld %3lld/%-3lld %6lld",
                    static_cast<long long>(step.number), static_cast<long long>(step.running),
                    static_cast<long long>(step.waiting), static_cast<long long>(step.new_tokens),
                    static_cast<long long>(step.pages_used), static_cast<long long>(pages),
                    static_cast<long long>(step.pages_shared));
  if (!times_hidden()) {
    width += std::snprintf(row + width, sizeof row - static_cast<size_t>(width), " %5.*f %6.0f",
                           step.ms < 999.9 ? 1 : 0, step.ms,
                           1000 * static_cast<double>(step.new_tokens) / step.ms);
  }
  std::cout << row;
  for (size_t i = 0; i < step.events.size(); ++i) {
    std::cout << (i == 0 ? "  " : "\n" + std::string(static_cast<size_t>(width) + 2, ' '))
              << step.events[i];
  }
  std::cout << "\n" << std::flush;
}

std::string text_of(std::span<const int32_t> tokens, const ch20::TrainingState& trained) {
  std::string text;
  for (const int32_t token : tokens) {
    const char32_t c = trained.vocabulary[token];
    text += c == U'\n' ? "\\n" : ch20::encode_utf8(c);
  }
  return text;
}

// Prints each answer after its prompt, in lines of 76 characters.
void print_answers(const Server& server, const ch20::TrainingState& trained) {
  std::vector<const Request*> in_order;
  for (const Request& request : server.finished()) in_order.push_back(&request);
  std::sort(in_order.begin(), in_order.end(),
            [](const Request* a, const Request* b) { return a->number < b->number; });
  std::cout << "\n";
  for (const Request* request : in_order) {
    const std::span<const int32_t> tokens(request->tokens);
    const std::u32string shown =
        ch20::decode_utf8(std::to_string(request->number) + ": " +
                              text_of(tokens.first(request->prompt_length), trained) + "|" +
                              text_of(tokens.subspan(request->prompt_length), trained),
                          "the answer");
    for (size_t at = 0; at < shown.size(); at += 76) {
      std::string line = at == 0 ? "  " : "     ";
      for (const char32_t c : shown.substr(at, 76)) line += ch20::encode_utf8(c);
      std::cout << line << "\n";
    }
  }
}

double ratio(double a, int64_t b) { return b == 0 ? 0 : a / static_cast<double>(b); }

void print_totals(const Server& server, const Verdict& verdict, const std::string& problem) {
  const Totals& totals = server.totals();
  const auto line = [](const char* format, auto... values) {
    char text[160];
    std::snprintf(text, sizeof text, format, values...);
    std::cout << text;
  };
  const auto n = [](int64_t value) { return static_cast<long long>(value); };
  line("\n  answered   %lld requests, %lld tokens in %lld steps: %.2f per step\n",
       n(std::ssize(server.finished())), n(totals.tokens), n(totals.steps),
       ratio(static_cast<double>(totals.tokens), totals.steps));
  if (!times_hidden()) {
    line("  speed      %.0f tokens per second\n",
         1000 * static_cast<double>(totals.tokens) / totals.ms);
  }
  line("  prompts    %lld tokens computed, %lld found in shared pages\n", n(totals.computed),
       n(totals.found));
  if (totals.drafted > 0) {
    line("  drafts     %lld tokens guessed, %lld accepted\n", n(totals.drafted),
         n(totals.accepted));
  }
  line("  cache      at most %lld of %lld pages in use; %lld put back, %lld refused\n",
       n(totals.most_pages), n(server.pages().size()), n(totals.put_back), n(totals.refused));
  std::cout << "  pages      "
            << (server.broken_invariant().empty() ? "all released, none shared by accident"
                                                  : server.broken_invariant())
            << "\n";
  const RunResult& numbers = verdict.numbers();
  if (problem.empty()) {
    line("  check      passed: %lld tokens against float64, largest error %.1g of %.1g\n",
         n(totals.tokens), numbers.max_abs_error, verdict.bound());
  } else {
    std::cout << "  check      FAILED: " << problem << "\n";
  }
  const std::vector<Undecided>& undecided = verdict.undecided();
  if (undecided.empty()) {
    std::cout << "  decided    every token: the best logit leads by more than rounding\n";
  } else {
    line("  undecided  in %lld requests; first in request %lld, token %lld:\n",
         n(std::ssize(undecided)), n(undecided[0].request), n(undecided[0].token));
    line("             its two best logits differ by %.2g\n", undecided[0].difference);
  }
}

nlohmann::json report(const Options& options, const Server& server, const Verdict& verdict,
                      const ch20::TrainingState& trained, const nlohmann::json& steps,
                      bool passed) {
  const Totals& totals = server.totals();
  const RunResult& numbers = verdict.numbers();
  nlohmann::json answers = nlohmann::json::array();
  for (const Request& request : server.finished()) {
    const std::span<const int32_t> tokens(request.tokens);
    answers.push_back({{"request", request.number},
                       {"prompt", text_of(tokens.first(request.prompt_length), trained)},
                       {"answer", text_of(tokens.subspan(request.prompt_length), trained)}});
  }
  nlohmann::json json = {
      {"chapter", "ch24_serve_a_gpt"},
      {"device", server.attention().device()},
      {"breaks", options.breaks},
      {"pages", server.pages().size()},
      {"page_size", server.pages().page_size()},
      {"batch", options.server.batch},
      {"draft", options.server.draft},
      {"sharing", options.server.sharing},
      {"steps", totals.steps},
      {"tokens", totals.tokens},
      {"prompt_tokens_computed", totals.computed},
      {"prompt_tokens_found", totals.found},
      {"drafted", totals.drafted},
      {"accepted", totals.accepted},
      {"put_back", totals.put_back},
      {"refused", totals.refused},
      {"most_pages", totals.most_pages},
      {"pages_lost", server.pages().used()},
      {"broken_invariant", server.broken_invariant()},
      {"time_ms", totals.ms},
      {"tokens_per_second", 1000 * ratio(static_cast<double>(totals.tokens), 1) / totals.ms},
      {"hazards", nlohmann::json::array()},
      {"answers", answers},
      {"trace", steps},
      {"undecided", nlohmann::json::array()},
      {"check",
       {{"passed", passed},
        {"elements", numbers.elements},
        {"mismatches", numbers.mismatches},
        {"nonfinite", numbers.nonfinite},
        {"bound", verdict.bound()},
        {"max_abs_error", json_number(numbers.max_abs_error)}}}};
  for (const Undecided& one : verdict.undecided()) {
    json["undecided"].push_back(
        {{"request", one.request}, {"token", one.token}, {"difference", one.difference}});
  }
  return json;
}

nlohmann::json trace_of(const Step& step) {
  return {{"step", step.number},
          {"running", step.running},
          {"waiting", step.waiting},
          {"new_tokens", step.new_tokens},
          {"pages", step.pages_used},
          {"shared", step.pages_shared},
          {"ms", step.ms},
          {"holders", step.holders},
          {"events", step.events}};
}

// Times the same prompts by the number of requests at a time, and by the length of the draft.
int run_bench(const Options& options, const ch20::TrainingState& trained,
              const std::string& device) {
  std::printf("requests at a time   draft   steps   tokens per step   tokens per second\n");
  for (const auto& [batch, draft] : {std::pair{1, 0}, {2, 0}, {4, 0}, {8, 0}, {4, 2}, {4, 4}}) {
    ServerOptions server_options = options.server;
    server_options.batch = batch;
    server_options.draft = draft;
    server_options.pages = 8 * trained.recipe.model.context / server_options.page_size;  // enough
    std::vector<Request> requests = requests_of(options, trained);
    for (Request& request : requests) request.arrival = 0;
    Server server(server_options, trained,
                  make_cache_attention(device, cache_shape(server_options, trained.recipe.model)),
                  std::move(requests));
    server.run();
    const Totals& totals = server.totals();
    const double tokens = static_cast<double>(totals.tokens);
    std::printf("%18d %7d %7lld %17.1f %19.0f\n", batch, draft,
                static_cast<long long>(totals.steps), ratio(tokens, totals.steps),
                1000 * tokens / totals.ms);
    std::fflush(stdout);
  }
  return kAgreed;
}

int run_command(Invocation& call) {
  Cli cli("ch24_serve_a_gpt", "Serves chapter 20's GPT: prefill, pages, decoding, drafts.");
  Options options;
  bool list = false, bench = false;
  declare(cli, options);
  cli.flag("--bench", bench, "tokens per second by the number of requests and by the draft");
  cli.flag("--list-breaks", list, "print what --break accepts");
  cli.parse(call.argc, call.argv);
  if (list) {
    std::cout << list_breaks(CH24_BREAKS);
    return kAgreed;
  }
  for (const char* option : {"--steps", "--text"}) {
    if (!options.checkpoint.empty() && cli.given(option)) {
      throw InputError(std::string(option) + ": accepted without --checkpoint");
    }
  }
  if (options.standard_input && !options.prompts.empty()) {
    throw InputError("--stdin: accepted without --prompts");
  }
  options.server.breaks.mask = parse_breaks(options.breaks, BREAKS);
  options.server.sharing = !options.no_sharing;
  const std::string device = choose_device(options.device);

  const bool trains = options.checkpoint.empty();
  const ch20::TrainingState trained =
      trains ? train(options, call) : ch20::load_checkpoint(options.checkpoint);
  if (bench) return run_bench(options, trained, device);
  const ch20::Config& model = trained.recipe.model;
  Server server(options.server, trained,
                make_cache_attention(device, cache_shape(options.server, model)),
                requests_of(options, trained));
  if (!call.silent) {
    std::cout << (trains ? "" : call.heading) << model.layers << " layers, " << model.heads
              << " heads of " << model.channels / model.heads << ", context " << model.context
              << ", attention on the " << server.attention().device() << "\n"
              << options.server.pages << " pages of " << options.server.page_size
              << " tokens, at most " << options.server.batch << " requests at a time"
              << (options.server.draft > 0
                      ? ", drafts of up to " + std::to_string(options.server.draft) + " tokens"
                      : "")
              << "\n";
    print_heading();
  }
  nlohmann::json trace = nlohmann::json::array();
  server.run([&](const Step& step) {
    trace.push_back(trace_of(step));
    if (!call.silent) print(step, server.pages().size());
  });

  Verdict verdict(trained, device == "cpu" ? kBound : kKernelBound);
  for (const Request& request : server.finished()) {
    verdict.add({request.number, request.tokens, request.prompt_length, request.logits});
  }
  const int64_t hazards = server.attention().hazards();
  const std::string problem = !verdict.numbers().passed ? verdict.first_wrong()
                              : hazards > 0             ? std::to_string(hazards) + " hazards"
                                                        : server.broken_invariant();
  const bool passed = problem.empty();
  call.result = verdict.numbers();
  call.result.passed = passed;
  call.json = options.json;
  call.report = shared_json(report(options, server, verdict, trained, trace, passed));
  if (!call.silent) {
    print_answers(server, trained);
    print_totals(server, verdict, problem);
  }
  return passed ? kAgreed : kDisagreed;
}

}  // namespace
}  // namespace fa::ch24

int main(int argc, char** argv) {
  return fa::breakable_main(argc, argv, CH24_BREAKS, fa::ch24::run_command);
}
