// Puts the functions of a region together: asmjit's code holder and runtime, listing and perf map.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "cpu/function.h"
#include "cpu/memory.h"
#include "cpu/whole_factor.h"
#include "runtime/poll.h"
#include "support/abort.h"

namespace appy::cpu {

namespace {

class Errors : public asmjit::ErrorHandler {
 public:
  void handleError(asmjit::Error, const char* message, asmjit::BaseEmitter* emitter) override {
    if (text.empty()) text = message;
    (void)emitter;
  }
  std::string text;
};

asmjit::JitRuntime& code_memory() {
  static asmjit::JitRuntime* runtime = new asmjit::JitRuntime;  // lives as long as the kernels: forever
  return *runtime;
}

class CompiledRegion : public runtime::Kernel {
 public:
  CompiledRegion(RegionEntry entry, ArgumentWords words, std::string listing, std::string summary)
      : entry_(entry), words_(words), listing_(std::move(listing)), summary_(std::move(summary)) {}
  ~CompiledRegion() override { code_memory().release(entry_); }

  runtime::Status run(runtime::Invocation& invocation) const override {
    Context context;
    context.flag = runtime::poll_flag();
    context.threads = invocation.threads;
    Memory memory;
    context.memory = &memory;
    context.arrays = invocation.arrays;
    // Behind the arguments is the place of the words that describe the arrays the region makes.
    const ir::Word* args = invocation.args;
    std::array<ir::Word, 128> near;
    std::vector<ir::Word> far;
    if (words_.all > words_.params) {
      if (words_.all > near.size()) far.resize(words_.all);
      ir::Word* copy = far.empty() ? near.data() : far.data();
      std::copy_n(invocation.args, words_.params, copy);
      args = copy;
    }
    const int64_t left = entry_(&context, args, invocation.results);
    const auto status = left == kInterruptedBefore ? runtime::Status::interrupted : static_cast<runtime::Status>(left);
    invocation.no_memory = context.no_memory && status == runtime::Status::interrupted;
    if (status == runtime::Status::failed || status == runtime::Status::interrupted) {
      invocation.failure = context.failure;
    }
    return status;
  }
  std::string listing() const override { return listing_; }
  std::string summary() const override { return summary_; }

 private:
  RegionEntry entry_;
  ArgumentWords words_;
  std::string listing_, summary_;
};

void note_in_perf_map(const void* code, size_t size, std::string_view name) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  if (FILE* file = std::fopen(path.c_str(), "a")) {
    std::fprintf(file, "%lx %zx appy:%.*s\n", reinterpret_cast<unsigned long>(code), size,
                 static_cast<int>(name.size()), name.data());
    std::fclose(file);
  }
}

}  // namespace

Isa detect() {
  static const Isa found = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2") ||
        !__builtin_cpu_supports("f16c")) {
      return Isa::none;
    }
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512cd");
    return wide ? Isa::avx512 : Isa::avx2;
  }();
  return found;
}

Traits traits() {
  const asmjit::CpuInfo& cpu = asmjit::CpuInfo::host();
  const bool intel = cpu.isVendor("INTEL");
  return {.fast_gathers = intel && cpu.features().x86().hasAVX512_FP16(), .asks_for_streams = intel};
}

void read_machine() { asmjit::CpuInfo::host(); }

std::string_view name_of(Isa isa) { return isa == Isa::avx512 ? "AVX-512" : isa == Isa::avx2 ? "AVX2" : "none"; }

std::unique_ptr<runtime::Kernel> compile(const ir::Graph& graph, const Options& options) {
  const Isa isa = options.isa == Isa::none ? detect() : options.isa;
  if (isa == Isa::none) throw Abort(AbortId::instruction_set_);
  asmjit::CodeHolder code;
  asmjit::StringLogger logger;
  Errors errors;
  code.init(code_memory().environment());
  code.setErrorHandler(&errors);
  if (options.keep_listing) code.setLogger(&logger);
  Compiler cc(&code);
  cc.addEncodingOptions(asmjit::EncodingOptions::kOptimizedAlign);  // few long nops, which are executed
#ifdef APPY_VERIFY_PASSES
  cc.addDiagnosticOptions(asmjit::DiagnosticOptions::kValidateIntermediate |
                          asmjit::DiagnosticOptions::kValidateAssembler);
#endif
  Module module(graph, isa, options.stream_bytes, options.traits.value_or(traits()), cc);
  Function(module).emit_region();
  for (size_t i = 0; i < module.outlined.size(); ++i) {
    const Outlined outlined = module.outlined[i];
    Function(module).emit_outlined(outlined);
  }
  if (errors.text.empty()) cc.finalize();
  RegionEntry entry = nullptr;
  if (errors.text.empty()) code_memory().add(&entry, &code);
  if (!errors.text.empty() || !entry) throw Abort(AbortId::codegen_, errors.text);
  static const bool perf_map = [] {
    const char* value = std::getenv("APPY_PERF_MAP");
    return value && !std::strcmp(value, "1");
  }();
  if (perf_map) {
    note_in_perf_map(reinterpret_cast<const void*>(entry), code.codeSize(),
                     options.name.empty() ? std::string_view(graph.name) : options.name);
  }
  std::string summary;
  for (const std::string& line : module.summary) summary += line + "\n";
  return factored(graph, std::make_unique<CompiledRegion>(
                             entry, module.words,
                             options.keep_listing ? std::string(logger.data(), logger.dataSize()) : std::string(),
                             std::move(summary)));
}

}  // namespace appy::cpu
