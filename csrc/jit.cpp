// Read enter(), compile() and build(): they are the architecture.
#include "jit.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <set>

#include "bytecode/bytecode.h"
#include "cpu/cpu.h"
#include "cpu/lapack.h"
#include "gpu/kernel.h"
#include "ir/verify.h"
#include "jit_cache.h"
#include "jit_report.h"
#include "jit_tuning.h"
#include "lower.h"
#include "passes/pass.h"
#include "passes/unwatched.h"
#include "pycompat/signals.h"
#include "runtime/describe.h"
#include "runtime/device_arrays.h"
#include "runtime/eval_kernel.h"
#include "runtime/fp_state.h"
#include "runtime/late.h"
#include "runtime/numpy.h"
#include "runtime/poll.h"
#include "runtime/pool.h"
#include "runtime/specialization.h"
#include "runtime/type_key.h"
#include "support/check.h"
#include "trace/trace.h"

namespace appy {
namespace {

using runtime::Entry;
using runtime::Scope;
using runtime::Specialization;

constexpr size_t max_specializations = 32;
constexpr size_t max_refusals = 32;
/// So many versions that differ only in the ranges of Python ints and in which slices have one element, and the next
/// one takes any int and any number of elements. The latter it does, too, where half of the places are taken, and for
/// new types where three quarters are.
constexpr int max_ranges = 8;

Stats totals;

struct Compiled {
  std::unique_ptr<Specialization> code;
  bool last_resort = false;  // where it declines no other could be compiled
  SpecializationReport report;
};

/// A combination of types that could not be compiled.
struct Refusal {
  runtime::TypeKey key;
  SpecializationReport report;
};

/// Where the code is no function's, its names have to be the globals of a module: else what they are, or null.
const char* namespace_of_its_own(const Scope& scope) {
  if (!scope.names) return nullptr;
  if (scope.names != scope.globals) return "a namespace that is no module's";
  return PyDict_CheckExact(scope.globals) ? nullptr : "a namespace that is no plain dict";
}

Backend wanted_backend(const RegionOptions& options) {
  return options.backend == Backend::automatic ? config().backend : options.backend;
}

/// The backend for a region whose arrays lie in the memory of `device`.
Backend chosen_backend(const RegionOptions& options, int device) {
  const bool on_device = device != runtime::host_memory;
  Backend backend = wanted_backend(options);
  if (backend == Backend::automatic) backend = on_device ? Backend::cuda : Backend::cpu;
  if (backend != Backend::cuda && on_device && !config().emulated) {
    const char* name = backend == Backend::eval ? "eval" : "cpu";
    throw Abort(AbortId::host_backend_, name, options.line, options.file);
  }
  return backend;
}

/// The instruction set that code for the CPU is made of.
cpu::Isa chosen_isa() {
  if (config().isa == "avx2") return cpu::Isa::avx2;
  if (config().isa == "avx512") return cpu::Isa::avx512;
  return cpu::detect();
}

std::unique_ptr<runtime::Kernel> compile_for_cpu(const ir::Graph& graph, const RegionOptions& options, bool listing) {
  if (cpu::detect() == cpu::Isa::none) throw Abort(AbortId::instruction_set_, {}, options.line, options.file);
  const cpu::Isa isa = chosen_isa();
  const std::string name = options.name + ":" + std::to_string(options.line);
  return cpu::compile(graph,
                      {.isa = isa, .keep_listing = listing, .name = name, .stream_bytes = config().stream_bytes});
}

std::unique_ptr<runtime::Kernel> compile_for(Backend backend, const ir::Graph& graph,
                                             const runtime::Signature& signature, const RegionOptions& options,
                                             bool listing) {
  if (backend == Backend::eval) return runtime::make_eval_kernel(graph);
  if (backend != Backend::cuda) return compile_for_cpu(graph, options, listing);
  gpu::Options gpu_options;
  gpu_options.device = std::max(signature.device, 0);
  gpu_options.on_device = signature.device_parameters(graph.body->args.size());
  gpu_options.unaligned.resize(graph.body->args.size());
  for (const runtime::Input& in : signature.inputs) {
    if (in.guard == runtime::Input::Guard::array && in.param >= 0 && !in.aligned) {
      gpu_options.unaligned[static_cast<size_t>(in.param)] = true;
    }
  }
  gpu_options.makes_on_device = signature.device >= 0;
  gpu_options.keep_listing = listing;
  if (options.tune) gpu_options.tuning = tuning_store(options.name);
  gpu_options.source_line = source_line;
  gpu_options.compile_host = [options](const ir::Graph& part) { return compile_for_cpu(part, options, false); };
  return gpu::compile(graph, std::move(gpu_options));
}

/// Is the statement inside of a `try` or a `with`, where its exceptions may be caught?
bool is_handled(PyCodeObject* code, int begin) {
  const std::vector<bytecode::Handler> all = bytecode::handlers(code);
  return std::any_of(all.begin(), all.end(),
                     [&](const bytecode::Handler& h) { return h.begin <= begin && begin < h.end; });
}

bool in_any_order(const ir::Op& op) {
  for (const ir::Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    if (loop->loop && (loop->loop->parallel || loop->loop->simd)) return true;
  }
  return false;
}

/// Is there something that the interpreter must do, after something was written that it must not do again? Or something
/// that fails where the variables of the statements before are not at hand?
bool may_fail_late(const ir::Graph& graph, bool leaves_variables, bool on_device) {
  bool found = false;
  ir::walk(*graph.body, [&](const ir::Op& op) {
    if (op.code != ir::Opcode::check_ || op.check->declines) return;
    found |= op.check->kind == ir::CheckKind::decline_ || op.check->kind == ir::CheckKind::broadcast_;
    if (!leaves_variables) return;
    // Variables that a device knows where it fails are of no use to an interpreter that goes on from there.
    found |= on_device ? !op.check->has_state || runtime::can_run_again(op.check->kind) : in_any_order(op);
  });
  return found;
}

/// Variables that it leaves are numbers, or what was there before: no arrays of its own.
bool leaves_numbers(const runtime::Signature& signature) {
  const auto& outputs = signature.outputs;
  return !outputs.empty() && std::all_of(outputs.begin(), outputs.end(),
                                         [](const runtime::Output& out) { return out.alloc < 0 && out.which < 0; });
}

}  // namespace

class RegionCache::Impl {
 public:
  Impl(PyCodeObject* code, int begin, int end, std::vector<pragma::Placed> pragmas, RegionOptions options)
      : code_(Ref::borrow(reinterpret_cast<PyObject*>(code))),
        begin_(begin),
        end_(end),
        pragmas_(std::move(pragmas)),
        options_(std::move(options)),
        numpy_(runtime::import_numpy()),
        handled_(is_handled(code, begin)) {
    if (!numpy_) PyErr_Clear();
    runtime::set_poll(appy_signal_flag(), appy_run_signal_handlers);
    if (!options_.captured) count(&Stats::regions);
  }

  bool is_for(const Scope& scope) const {
    if (!options_.captured) return true;
    return is_for_device(scope) || (options_.repeats && wanted_backend(options_) != Backend::eval);
  }

  Outcome enter(const Scope& scope, PyObject** returned) {
    if (options_.captured && stats_.regions == 0 && is_for_device(scope)) count(&Stats::regions);
    if (runtime::fault_told() && runtime::raise_late_failure()) return Outcome::raised;
    if (!numpy_) return refuse(refusal(Abort(AbortId::numpy_, {}, options_.line, options_.file), options_, {}));
    if (!runtime::float_errors_are_silent())
      return decline("np.errstate or a warning filter asks for floating-point errors");
    if (const char* place = namespace_of_its_own(scope))
      return refuse(refusal(Abort(AbortId::namespace_, place, options_.line, options_.file), options_, {}));
    Entry entry;
    Compiled* found = find(scope, entry);
    if (found) return run(*found, scope, entry, returned, true);
    if (const Refusal* known = refused(scope)) return refuse(known->report);
    try {
      found = compile(scope, entry);
    } catch (const Abort& abort) {
      return refuse(remember(abort, scope));
    }
    if (options_.captured && stats_.regions == 0) count(&Stats::regions);
    return issue_warnings(*found) ? run(*found, scope, entry, returned, false) : Outcome::raised;
  }

  std::shared_ptr<Lowered> lower(const Scope& scope) const {
    if (const char* place = namespace_of_its_own(scope))
      throw Abort(AbortId::namespace_, place, options_.line, options_.file);
    for (bool may_alias : {false, true}) {
      trace::Result traced = trace::trace(region(may_alias, false, false), scope);
      if (!may_alias && runtime::Guards(traced.signature, *traced.graph, scope).overlaps(scope)) continue;
      auto optimised = ir::clone(*traced.graph);
      const bool tiled = optimise(optimised, runtime::host_memory, false, nullptr, nullptr);
      if (options_.captured && !is_for_device(scope) && !tiled) return nullptr;
      return std::make_shared<Lowered>(std::move(traced.graph), std::move(optimised), std::move(traced.signature));
    }
    return nullptr;
  }

  RegionReport report() const {
    RegionReport r{options_.name, options_.file, options_.line, options_.end_line, options_.group, stats_, {},
                   last_decline_};
    for (const auto& compiled : compiled_) {
      r.specializations.push_back(compiled->report);
      r.specializations.back().summary = compiled->code->kernel().summary();  // what it has done since then
    }
    for (const auto& refusal : refusals_) r.specializations.push_back(refusal->report);
    return r;
  }

  const Stats& stats() const { return stats_; }
  const RegionOptions& options() const { return options_; }

 private:
  /// The specialization for the frame as it is, moved to the front of the list; null where there is none.
  Compiled* find(const Scope& scope, Entry& entry) {
    for (auto at = compiled_.begin(); at != compiled_.end(); ++at) {
      if (!(*at)->code->guards().match(scope, entry)) continue;
      std::rotate(compiled_.begin(), at, at + 1);
      return compiled_.front().get();
    }
    return nullptr;
  }

  /// Compiles for the frame as it is and fills `entry`. Where arrays overlap there are two versions: the one that keeps
  /// loads and stores in order, and the other one for when they do not.
  Compiled* compile(const Scope& scope, Entry& entry) {
    for (bool may_alias : {false, true}) {
      if (compiled_.size() >= max_specializations)
        throw Abort(AbortId::specializations_, std::to_string(max_specializations), options_.line, options_.file);
      std::unique_ptr<Compiled> made = build(scope, may_alias);
      const runtime::Guards& guards = made->code->guards();
      bool matches = guards.match(scope, entry);
      if (!matches && (may_alias || !guards.overlaps(scope)))
        throw Abort(AbortId::unstable_, guards.mismatch(scope), options_.line, options_.file);
      if (matches && !options_.dry_run) made->code->kernel().prepare(entry.args.data());
      compiled_.insert(compiled_.begin(), std::move(made));
      if (matches) return compiled_.front().get();
    }
    return nullptr;
  }

  /// Runs the passes for the CPU (`runtime::host_memory`) or for a device, and notes what they did. Are loops tiled in
  /// time? `keeps_state`: checks know, on a device too, what variables hold where they fail. `settled` gets the
  /// conditions that the trace and passes took to hold for the entry that it is compiled for.
  bool optimise(std::unique_ptr<ir::Graph>& graph, int device, bool keeps_state, StageLog* log,
                std::vector<ir::Formula>* settled) const {
    const bool on_device = device != runtime::host_memory;
    passes::Options options;
    options.target = on_device ? passes::Target::device : passes::Target::cpu;
    for (const std::string& name : config().disabled_passes) options.disabled.push_back(name);
    bool tiled = false;
    std::set<const ir::Op*> noted;
    if (settled) note_settled(*graph, noted, *settled);
    options.on_change = [&](std::string_view name, const ir::Graph& changed) {
      tiled |= name == "time_tiles";
      if (settled) note_settled(changed, noted, *settled);
      if (log) log->pass(name, changed);
    };
    if (on_device && keeps_state) {
      passes::without_polls(*graph);
      options.disabled.push_back("unwatched");
    }
    if (on_device) {
      graph->workers = gpu::multiprocessors(device);
      graph->boxes = gpu::wants_boxes();
    } else {
      graph->registers = cpu::vector_registers(chosen_isa());
      graph->workers = threads();
      graph->cache = cpu::second_level_cache();
    }
    // What is to be shown of each pass has to run, and code for the CPU is made faster than it is looked up.
    if (on_device && !(log && log->wants(stage_passes))) {
      const bool known = run_passes_once(graph, options);
      if (log) log->passes_from_disk(known);
    } else {
      passes::run(*graph, options);
    }
    return tiled;
  }

  /// Appends the conditions of checks that have just been made for the sizes at entry (ir/sizes.h).
  static void note_settled(const ir::Graph& graph, std::set<const ir::Op*>& noted, std::vector<ir::Formula>& settled) {
    ir::walk(*graph.body, [&](const ir::Op& op) {
      if (op.code != ir::Opcode::check_ || op.check->kind != ir::CheckKind::sizes_) return;
      if (!noted.insert(&op).second) return;
      std::optional<ir::Formula> condition = ir::Formula::of(op.operands[0], graph);
      APPY_CHECK(condition, "what sizes code is for follows from arguments");
      settled.push_back(std::move(*condition));
    });
  }

  /// The region without variables that nothing reads afterwards, if that makes it a factorization, which a library
  /// computes and with it no variable; else as it was.
  trace::Result as_factorization(trace::Result traced, trace::Region of, const Scope& scope) const {
    of.drops_dead = true;
    trace::Result less = trace::trace(of, scope);
    const auto tried = ir::clone(*less.graph);
    passes::Options options;
    options.last = "factors";
    for (const std::string& name : config().disabled_passes) options.disabled.push_back(name);
    passes::run(*tried, options);
    return tried->factorization ? std::move(less) : std::move(traced);
  }

  /// Trace -> passes -> backend.
  std::unique_ptr<Compiled> build(const Scope& scope, bool may_alias) {
    auto begun = std::chrono::steady_clock::now();
    auto made = std::make_unique<Compiled>();
    SpecializationReport& report = made->report;
    StageLog log(options_, report);
    auto lap_begun = begun;
    const auto lap = [&] {
      const auto before = std::exchange(lap_begun, std::chrono::steady_clock::now());
      return std::chrono::duration<double>(lap_begun - before).count();
    };
    log.bytecode(reinterpret_cast<PyCodeObject*>(code_.get()), begin_, end_);

    const auto variants = variants_of(scope, may_alias);
    const bool any_int = variants >= max_ranges;
    const bool any_count = any_int || leaves_room(scope, variants > 0);
    trace::Region of = region(may_alias, any_int, any_count);
    of.settles = !any_count;
    trace::Result traced = trace::trace(of, scope);
    // A handler may read what the variables were.
    if (chosen_backend(options_, traced.signature.device) == Backend::cpu && !handled_ && cpu::lapack() &&
        passes::resembles_factorization(*traced.graph))
      traced = as_factorization(std::move(traced), of, scope);
    traced.graph->name = options_.name;
    report.trace_seconds = lap();
    log.traced(*traced.graph);
#ifdef APPY_VERIFY_PASSES
    std::string faults = ir::verify(*traced.graph);
    APPY_CHECK(faults.empty(), "the tracer made a bad graph:\n" + faults);
#endif
    const Backend backend = chosen_backend(options_, traced.signature.device);
    const bool on_device = backend == Backend::cuda;
    traced.graph->inspectors = !on_device;
    // Arrays of the host go to the first device.
    const int device = on_device ? std::max(traced.signature.device, 0) : runtime::host_memory;
    // Arrays of the host are copied to a device and back when all is done: there the interpreter can always start anew.
    const bool starts_anew = on_device && traced.signature.device == runtime::host_memory;
    const bool keeps_state = options_.group && on_device && !starts_anew && leaves_numbers(traced.signature);
    if (!on_device && !any_count) traced.graph->given = traced.samples.words(*traced.graph);
    const bool tiled = optimise(traced.graph, device, keeps_state, &log, &traced.signature.settled);
    const ir::Graph& graph = *traced.graph;
    report.passes_seconds = lap();
    if (options_.group && !starts_anew && may_fail_late(graph, !traced.signature.outputs.empty(), on_device)) {
      throw Abort(AbortId::group_, {}, options_.line, options_.file);
    }
    if (options_.captured && !on_device && !tiled) throw Abort(AbortId::group_, {}, options_.line, options_.file);
    std::unique_ptr<runtime::Kernel> kernel =
        compile_for(backend, graph, traced.signature, options_, log.wants(stage_asm));
    report.backend_seconds = lap();
    log.listing(*kernel);

    report.compiled = true;
    report.sequential = may_alias;
    report.signature = runtime::describe(traced.signature);
    report.summary = kernel->summary();
    report.remarks = remarks_of(graph);
    report.arrays = arrays_of(traced);
    made->code = std::make_unique<Specialization>(
        std::move(traced.graph), std::move(traced.signature), std::move(kernel), scope,
        options_.name + " (" + options_.file + ":" + std::to_string(options_.line) + ")");
    report.compile_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    stats_.compile_seconds += report.compile_seconds;
    totals.compile_seconds += report.compile_seconds;
    count(&Stats::compiled);
    return made;
  }

  Outcome run(Compiled& compiled, const Scope& scope, Entry& entry, PyObject** returned, bool hit) {
    if (options_.dry_run) return decline("dry_run");
    using Wait = Specialization::Wait;
    const Wait wait = config().sync ? Wait::always : options_.strict || handled_ ? Wait::for_failures : Wait::never;
    runtime::Launch launched = compiled.code->launch(scope, entry, threads(), returned, wait);
    if (launched == runtime::Launch::declined) {
      if (Compiled* other = better_fit(compiled, scope, entry)) {
        return issue_warnings(*other) ? run(*other, scope, entry, returned, false) : Outcome::raised;
      }
      return decline("a check failed before anything was written");
    }
    compiled.report.runs++;
    count(&Stats::runs);
    if (hit) count(&Stats::cache_hits);
    if (launched == runtime::Launch::raised) return Outcome::raised;
    return launched == runtime::Launch::exited ? Outcome::exited : Outcome::done;
  }

  /// For a frame where `declined` did, and that has extents of 1 that its trace had not, or sizes for which loops want
  /// other versions: the specialization that is for them, compiled where there is none.
  Compiled* better_fit(Compiled& declined, const Scope& scope, Entry& entry) {
    const bool other_version = !declined.code->guards().is_for_sizes(scope);
    const auto is_better = [&](const Compiled& one) {
      const runtime::Guards& guards = one.code->guards();
      return other_version ? guards.is_for_sizes(scope) : guards.fits(scope);
    };
    if (is_better(declined)) return nullptr;
    for (auto at = compiled_.begin(); at != compiled_.end(); ++at) {
      if (!is_better(**at) || !(*at)->code->guards().match(scope, entry)) continue;
      std::rotate(compiled_.begin(), at, at + 1);  // the next frame is likely to be for it, too
      return compiled_.front().get();
    }
    if (declined.last_resort && !other_version) return nullptr;
    try {
      // Of too many versions the next one is for any sizes.
      const bool room = other_version || (!is_full(2) && variants_of(scope, declined.report.sequential) < max_ranges);
      if (Compiled* made = room ? compile(scope, entry) : nullptr; made && is_better(*made)) return made;
    } catch (const Abort&) {
      // The types can be compiled, as `declined` shows: this is no refusal.
    }
    declined.last_resort = true;
    return nullptr;
  }

  int threads() const { return options_.threads > 0 ? options_.threads : runtime::default_threads(); }

  bool is_for_device(const Scope& scope) const {
    const Backend backend = wanted_backend(options_);
    return backend == Backend::cuda ||
           (backend == Backend::automatic && numpy_ && runtime::device_in(scope) != runtime::host_memory);
  }

  Outcome decline(const char* reason) {
    last_decline_ = reason;
    count(&Stats::declined);
    return Outcome::declined;
  }

  /// What is known of the types in the frame, if they could not be compiled before. A region that was refused too often
  /// is not tried again.
  const Refusal* refused(const Scope& scope) const {
    if (refusals_.empty()) return nullptr;
    if (refusals_.size() >= max_refusals) return refusals_.back().get();
    runtime::TypeKey key = runtime::type_key(scope);
    for (const auto& refusal : refusals_)
      if (refusal->key == key) return refusal.get();
    return nullptr;
  }

  const SpecializationReport& remember(const Abort& abort, const Scope& scope) {
    auto refusal = std::make_unique<Refusal>();
    refusal->key = runtime::type_key(scope);
    refusal->report = appy::refusal(abort, options_, runtime::describe(scope));
    refusals_.push_back(std::move(refusal));
    return refusals_.back()->report;
  }

  Outcome refuse(const SpecializationReport& why) {
    if (options_.group) return Outcome::declined;
    std::string message = refusal_message(why, options_);
    if (options_.strict) {
      raise_compile_error(message);
      return Outcome::raised;
    }
    count(&Stats::declined);
    bool of_process = why.abort == abort_name(AbortId::instruction_set_);
    static bool noticed = false;
    bool& said = of_process ? noticed : warned_;
    if (std::exchange(said, true)) return Outcome::declined;
    return warn(of_process ? why.reason : message, why.file, why.line, of_process ? "notice" : "fallback")
               ? Outcome::declined
               : Outcome::raised;
  }

  bool issue_warnings(const Compiled& compiled) {
    for (const RemarkReport& remark : compiled.report.remarks) {
      std::string text = remark.file + ":" + std::to_string(remark.line) + ": " + remark.text;
      if (!remark.warning || std::find(remarked_.begin(), remarked_.end(), text) != remarked_.end()) continue;
      remarked_.push_back(text);
      if (!warn(remark.text, remark.file, remark.line, "remark")) return false;
    }
    return true;
  }

  trace::Region region(bool may_alias, bool any_int, bool any_count) const {
    return {reinterpret_cast<PyCodeObject*>(code_.get()),
            begin_,
            end_,
            options_.captured ? options_.end_line : 0,
            pragmas_,
            options_.exact,
            may_alias,
            any_int,
            any_count,
            options_.auto_simd,
            wanted_backend(options_) == Backend::cuda,
            false,
            threads(),
            cpu::vector_registers(chosen_isa())};
  }

  /// Specializations for the same types.
  std::ptrdiff_t variants_of(const Scope& scope, bool may_alias) const {
    const auto differs = [&](const std::unique_ptr<Compiled>& compiled) {
      return compiled->report.sequential == may_alias && compiled->code->guards().matches_beside_ranges(scope);
    };
    return std::count_if(compiled_.begin(), compiled_.end(), differs);
  }

  /// All places but one part of so many are taken.
  bool is_full(size_t parts) const { return compiled_.size() >= max_specializations - max_specializations / parts; }

  /// Are other extents of known types to get no specialization of their own any more? New types get theirs up to the
  /// end.
  bool leaves_room(const Scope& scope, bool varies) const {
    if (!is_full(varies ? 2 : 4)) return false;
    return std::any_of(compiled_.begin(), compiled_.end(), [&](const std::unique_ptr<Compiled>& compiled) {
      return compiled->code->guards().matches_types(scope);
    });
  }

  void count(uint64_t Stats::*counter) { stats_.*counter += 1, totals.*counter += 1; }

  Ref code_;
  int begin_, end_;
  std::vector<pragma::Placed> pragmas_;
  RegionOptions options_;
  bool numpy_;                                       // its C API is there
  bool handled_;                                     // its exceptions may be caught in its own function
  std::vector<std::unique_ptr<Compiled>> compiled_;  // the last one used first
  std::vector<std::unique_ptr<Refusal>> refusals_;
  std::vector<std::string> remarked_;
  std::string last_decline_;
  Stats stats_;
  bool warned_ = false;
};

void read_machine() {
  cpu::read_machine();
  runtime::read_machine();
}

RegionCache::RegionCache(PyCodeObject* code, int begin, int end, std::vector<pragma::Placed> pragmas,
                         RegionOptions options)
    : impl_(std::make_unique<Impl>(code, begin, end, std::move(pragmas), std::move(options))) {
  trace::find_functions();
}
RegionCache::~RegionCache() = default;

Outcome RegionCache::enter(const Scope& scope, PyObject** returned) {
  *returned = nullptr;
  try {
    return impl_->enter(scope, returned);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
    return Outcome::raised;
  }
}

std::shared_ptr<Lowered> RegionCache::lower(const Scope& scope) { return impl_->lower(scope); }
bool RegionCache::is_for(const Scope& scope) const { return impl_->is_for(scope); }
const Stats& RegionCache::stats() const { return impl_->stats(); }
RegionReport RegionCache::report() const { return impl_->report(); }
const RegionOptions& RegionCache::options() const { return impl_->options(); }
const Stats& global_stats() { return totals; }

}  // namespace appy
