#include "jit_report.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "bytecode/bytecode.h"
#include "ir/text.h"
#include "support/ref.h"

namespace appy {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words(1);
  for (char c : text) {
    if (c == ',' || c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  }
  std::erase(words, "");
  return words;
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

Config read_environment() {
  Config c;
  c.dump = parse_stages(variable("APPY_DUMP"));
  std::string backend = variable("APPY_BACKEND");
  if (backend == "cpu") c.backend = Backend::cpu;
  if (backend == "eval") c.backend = Backend::eval;
  if (backend == "cuda") c.backend = Backend::cuda;
  c.isa = variable("APPY_ISA");
  c.disabled_passes = split(variable("APPY_DISABLE_PASS"));
  const std::string bytes = variable("APPY_STREAM_BYTES");
  const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), c.stream_bytes);
  if (error != std::errc{} || *end) c.stream_bytes = -1;
  return c;
}

struct OwnedHooks {
  Ref warn, compile_error;
};

OwnedHooks& hooks() {
  static auto& h = *new OwnedHooks;  // outlives the interpreter, as it holds its objects
  return h;
}

}  // namespace

uint8_t parse_stages(const std::string& names, std::string* unknown) {
  constexpr std::pair<const char*, Stage> stages[] = {
      {"bytecode", stage_bytecode}, {"ir", stage_ir}, {"passes", stage_passes}, {"asm", stage_asm}};
  uint8_t bits = 0;
  for (const std::string& word : split(names)) {
    uint8_t bit = 0;
    for (auto [name, stage] : stages)
      if (word == name) bit = stage;
    if (!bit && unknown && unknown->empty()) *unknown = word;
    bits |= bit;
  }
  return bits;
}

Config& config() {
  static Config c = read_environment();
  return c;
}

void set_hooks(const Hooks& h) {
  hooks().warn = Ref::borrow(h.warn);
  hooks().compile_error = Ref::borrow(h.compile_error);
}

StageLog::StageLog(const RegionOptions& options, SpecializationReport& report)
    : options_(options), report_(report), print_(options.dump | config().dump), keep_(options.keep_stages) {}

void StageLog::add(Stage stage, std::string_view label, std::string text) {
  if (print_ & stage) {
    std::fprintf(stderr, "--- %s %s:%d %.*s\n%s%s", options_.name.c_str(), options_.file.c_str(), options_.line,
                 static_cast<int>(label.size()), label.data(), text.c_str(), text.ends_with('\n') ? "" : "\n");
  }
  if (keep_ || (print_ & stage)) report_.stages.emplace_back(label, std::move(text));
}

void StageLog::bytecode(PyCodeObject* code, int begin, int end) {
  if (!wants(stage_bytecode)) return;
  std::string text;
  for (const bytecode::Instruction& i : bytecode::instructions(code)) {
    if (i.offset < begin || i.offset >= end) continue;
    char line[96];
    std::string_view name = pycompat::name_of(i.op);
    std::snprintf(line, sizeof line, "%5d %5d  %-24.*s %d %d\n", i.position.line, i.offset,
                  static_cast<int>(name.size()), name.data(), i.arg, i.arg2);
    text += line;
  }
  add(stage_bytecode, "bytecode", std::move(text));
}

void StageLog::traced(const ir::Graph& graph) {
  if (wants(stage_ir)) add(stage_ir, "ir", ir::print(graph));
}

void StageLog::pass(std::string_view name, const ir::Graph& graph) {
  report_.passes.emplace_back(name);
  if (wants(stage_passes)) add(stage_passes, name, ir::print(graph));
}

void StageLog::listing(const runtime::Kernel& kernel) {
  if (wants(stage_asm)) add(stage_asm, "asm", kernel.listing());
}

std::vector<RemarkReport> remarks_of(const ir::Graph& graph) {
  std::vector<RemarkReport> remarks;
  for (const ir::Remark& r : graph.remarks) {
    const ir::Loc loc = r.loc < graph.locs.size() ? graph.locs[r.loc] : ir::Loc{};
    remarks.push_back({r.severity == ir::Severity::warning, r.stage, loc.file, r.text, loc.line});
  }
  return remarks;
}

std::string source_line(const std::string& file, int line) {
  const Ref module = Ref::steal(PyImport_ImportModule("linecache"));
  const Ref text =
      Ref::steal(module ? PyObject_CallMethod(module.get(), "getline", "si", file.c_str(), line) : nullptr);
  const char* utf8 = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  const std::string out = utf8 ? utf8 : "";
  PyErr_Clear();
  return out;
}

namespace {

std::string text_of(const trace::ArrayCount& count) {
  std::string text = std::to_string(count.arrays) + (count.arrays == 1 ? " array" : " arrays");
  return count.bytes ? text + " of " + std::to_string(count.bytes) + " bytes" : text;
}

}  // namespace

std::string arrays_of(const trace::Result& traced) {
  const trace::ArrayCounts &before = traced.interpreted, after = trace::allocated(*traced.graph, traced.samples);
  const std::pair<const trace::ArrayCount*, const trace::ArrayCount*> kinds[] = {{&before.once, &after.once},
                                                                                 {&before.each, &after.each}};
  std::string text;
  for (const auto& [interpreted, left] : kinds) {
    if (!interpreted->arrays && !left->arrays) continue;
    if (!text.empty()) text += "; ";
    text += text_of(*interpreted) + (interpreted == &before.each ? " an iteration" : "") + " in the interpreter, " +
            (left->arrays ? text_of(*left) : "none") + " here";
  }
  return text;
}

SpecializationReport refusal(const Abort& abort, const RegionOptions& options, std::string signature) {
  SpecializationReport report;
  report.signature = std::move(signature);
  report.abort = abort_name(abort.id);
  report.reason = abort.message();
  report.remedy = abort_remedy(abort.id);
  report.file = abort.file.empty() ? options.file : abort.file;
  report.line = abort.line ? abort.line : options.line;
  return report;
}

std::string refusal_message(const SpecializationReport& r, const RegionOptions& options) {
  return options.name + ": the statement at " + options.file + ":" + std::to_string(options.line) +
         " runs in the interpreter: " + r.reason + " (" + r.file + ":" + std::to_string(r.line) + ")" +
         (r.remedy.empty() ? "" : "; " + r.remedy);
}

bool warn(const std::string& message, const std::string& file, int line, const char* kind) {
  PyObject* hook = hooks().warn.get();
  if (!hook) return PyErr_WarnEx(PyExc_RuntimeWarning, message.c_str(), 1) == 0;
  return static_cast<bool>(Ref::steal(PyObject_CallFunction(hook, "ssis", message.c_str(), file.c_str(), line, kind)));
}

void raise_compile_error(const std::string& message) {
  PyObject* type = hooks().compile_error.get();
  PyErr_SetString(type ? type : PyExc_RuntimeError, message.c_str());
}

}  // namespace appy
