// The driver: regions of code objects, their specializations, and what became of them. csrc/frame and the Python
// package see the compiler through this header only.
//
// Everything here is called with the GIL held.
#pragma once

#include <Python.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pragma/pragma.h"
#include "runtime/signature.h"

namespace appy {

enum class Backend : uint8_t {
  automatic,  // where the arrays are
  cpu,        // machine code
  eval,       // the reference evaluator: slow, for tests and debugging
  cuda,       // a GPU
};

/// Stages that can be printed (APPY_DUMP, `dump=`), as bits.
enum Stage : uint8_t { stage_bytecode = 1, stage_ir = 2, stage_passes = 4, stage_asm = 8 };
/// "ir,asm" -> bits. An unknown word is ignored; `unknown`, where given, receives the first one.
uint8_t parse_stages(const std::string& names, std::string* unknown = nullptr);

struct RegionOptions {
  bool exact = false;
  bool strict = false;
  bool group = false;     // several statements, which are regions of their own too: a refusal is nobody's business
  bool captured = false;  // a group that is entered where the arrays are for a device
  bool repeats = false;   // and on the CPU, where it becomes tiles in time
  bool auto_simd = true;  // the innermost loop of an array statement has lanes without being told
  bool dry_run = false;   // compile and dump, then let the interpreter run the statement
  bool tune = false;      // shapes of kernels on devices are chosen by measurement
  int threads = 0;        // 0: as many as this process may use
  Backend backend = Backend::automatic;
  uint8_t dump = 0;          // Stage bits printed to stderr as they are made, besides those of APPY_DUMP
  bool keep_stages = false;  // keep the texts of all stages for explain
  std::string name;          // of the function, qualified; for messages, the perf map and dumps
  std::string file;
  int line = 0;  // of the statement
  int end_line = 0;
};

/// Options of the process, read from the environment once: APPY_DUMP, APPY_BACKEND (cpu, eval, cuda), APPY_ISA (avx2,
/// avx512), APPY_DISABLE_PASS (names), APPY_STREAM_BYTES. Tests may change them; they hold for regions compiled from
/// then on.
struct Config {
  uint8_t dump = 0;
  Backend backend = Backend::automatic;
  std::string isa;
  std::vector<std::string> disabled_passes;
  int64_t stream_bytes = -1;  // see cpu::Options
  bool sync = false;      // regions on a device wait for it: what fails in them is raised at their end. Holds at once
  bool emulated = false;  // pointers of devices are pointers of the host: their arrays can be used by all backends
};
Config& config();

/// What is slow to find out and does not change: called when the module is imported.
void read_machine();

enum class Outcome : uint8_t {
  declined,  // nothing happened: the original bytecode does the work
  done,      // the statement ran; locals, cells and globals are as Python would leave them
  exited,    // the statement was left by `return`: *returned is a new reference to the value
  raised,    // a Python exception is set
};

struct Stats {
  uint64_t regions = 0;     // regions made
  uint64_t compiled = 0;    // specializations compiled
  uint64_t runs = 0;        // entries that ran compiled code
  uint64_t declined = 0;    // entries left to the interpreter
  uint64_t cache_hits = 0;  // runs that found their specialization
  double compile_seconds = 0;
};

struct RemarkReport {
  bool warning = false;
  std::string stage, file, text;
  int line = 0;
};

/// One combination of types that a region was entered with.
struct SpecializationReport {
  std::string signature;  // "x: float64[:] c, n: int"
  bool compiled = false;
  bool sequential = false;  // the version for arrays that overlap
  uint64_t runs = 0;
  double compile_seconds = 0;
  double trace_seconds = 0, passes_seconds = 0, backend_seconds = 0;  // parts of it
  std::vector<RemarkReport> remarks;
  std::string summary;              // Kernel::summary(): a line for each loop
  std::string arrays;               // those that the interpreter would make, and those that are left; may be empty
  std::vector<std::string> passes;  // that changed something
  bool passes_from_disk = false;    // an earlier process did, and left the graph in the cache
  // Why it was not compiled:
  std::string abort;  // row of aborts.def
  std::string reason, remedy, file;
  int line = 0;
  // Texts, where keep_stages or dump asked for them: (stage, text), in order; stage is "bytecode", "ir", the name of a
  // pass, or "asm".
  std::vector<std::pair<std::string, std::string>> stages;
};

struct RegionReport {
  std::string name, file;
  int line = 0, end_line = 0;
  bool group = false;
  Stats stats;
  std::vector<SpecializationReport> specializations;
  // The last entry that was left to the interpreter although code exists (a failed hoisted check, np.errstate, ...).
  std::string last_decline;
};

class Lowered;

/// One region: the statement at the byte offsets [begin, end) of a code object, with the pragmas placed in it. Holds
/// the code object, and every specialization made so far.
class RegionCache {
 public:
  RegionCache(PyCodeObject* code, int begin, int end, std::vector<pragma::Placed> pragmas, RegionOptions options);
  ~RegionCache();
  RegionCache(const RegionCache&) = delete;
  RegionCache& operator=(const RegionCache&) = delete;

  /// Could the statement be run in that frame? Where not, it is declined without being counted.
  bool is_for(const runtime::Scope& scope) const;

  /// Runs the statement in the frame `scope`, compiling it first where these types are new.
  Outcome enter(const runtime::Scope& scope, PyObject** returned);

  /// The graphs for the types in `scope`, without running anything (appy.lower). Throws Abort where the region cannot
  /// be compiled.
  std::shared_ptr<Lowered> lower(const runtime::Scope& scope);

  const Stats& stats() const;
  RegionReport report() const;
  const RegionOptions& options() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

/// Sums over all regions of the process, dead ones included.
const Stats& global_stats();

/// What the Python package lends to the driver; borrowed references are kept with an own one. `warn` is called as
/// warn(message, file, line, kind) with kind "fallback" (a region stays in the interpreter), "remark" (a false or
/// ignored promise) or "notice" (about the process: said once). It may raise: enter() then reports `raised`.
/// `compile_error` is the exception type of strict regions; it is called with the message.
struct Hooks {
  PyObject* warn = nullptr;
  PyObject* compile_error = nullptr;
};
void set_hooks(const Hooks&);

}  // namespace appy
