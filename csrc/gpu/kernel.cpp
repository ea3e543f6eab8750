#include "gpu/kernel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <future>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "gpu/device.h"
#include "gpu/kernel_state.h"
#include "gpu/plan.h"
#include "gpu/tiling.h"
#include "gpu/transfer.h"
#include "gpu/whole_product.h"
#include "support/abort.h"

namespace appy::gpu {

namespace {

using ir::Word;

/// What a library has refused it may refuse again: then it has worked in vain in few of the calls.
constexpr int kCallsAlone = 15;

/// What a kernel keeps of the region's own arrays for its next launch is at most this part of the device's memory.
constexpr int64_t kPartKept = 1024;

class DeviceKernel final : public runtime::Kernel {
 public:
  DeviceKernel(const ir::Graph& graph, Options options)
      : graph_(ir::clone(graph)),
        on_device_(options.on_device),
        makes_on_device_(options.makes_on_device),
        device_(device(options.device)),
        plans_(*graph_, options, device_),
        arrays_(plans_.code().arrays),
        wanted_(plans_.wanted()),
        told_(plans_.told()) {
    on_device_.resize(graph_->body->args.size());
    for (const ir::Value* v : graph_->body->args) {
      params_.push_back({v, words_});
      words_ += ir::words_of(v->type);
    }
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      if (op.code == ir::Opcode::check_) checks_.push_back(&op);
      if (!op.access) return;
      for (Param& p : params_) {
        if (p.value != op.view()) continue;
        p.written |= op.code != ir::Opcode::load_;
      }
    });
    for (size_t k = 0; k < params_.size(); ++k) moved_only_ &= !(params_[k].written && on_device_[k]);
    if (options.keep_listing) listing_ = plans_.code().text;
    result_words_ = wanted_.size();
    for (const ir::Op* alloc : told_) result_words_ += alloc->operands.size();
    where_ = how_it_runs();
    // While the kernel for the sizes is written and loaded.
    if (tells()) pinned_ = std::async(std::launch::async, [&device = device_] { device.pin_ahead(); });
  }
  ~DeviceKernel() override { drain(); }

  runtime::Status run(runtime::Invocation& call) const override {
    return guarded(call, [&] {
      std::lock_guard lock(mutex_);
      const Device::Current current(device_);
      for (;;) {
        try {
          return run_on_device(call, current);
        } catch (const Error& error) {
          if (!plans_.refuse(error)) throw;
        }
      }
    });
  }

  Where where() const override { return where_; }

  runtime::Status wait(runtime::Invocation& call) const override {
    return guarded(call, [&] {
      std::unique_lock lock(mutex_);
      KernelState& state = state_of(call.stream);
      const uint64_t launches = state.launches;
      lock.unlock();
      const bool done = device_.wait(call.stream);
      lock.lock();
      if (done) state.waited = std::max(state.waited, launches);
      if (!done && state.launches == launches) state.leave();
      return done ? runtime::Status::done : runtime::Status::interrupted;
    });
  }

  void prepare(const Word* args) const override {
    try {
      std::lock_guard lock(mutex_);
      runtime::Status status;
      Plan* const plan = plans_.find(args, &status);
      if (plan && plan->tuning) plans_.next(*plan, args);
      if (pinned_.valid()) pinned_.get();
    } catch (const Error& error) {
      switch (error.kind()) {
        case ErrorKind::no_compiler:
        case ErrorKind::compilation:
        case ErrorKind::architecture:
        case ErrorKind::driver_too_old:
          throw Abort(AbortId::no_gpu_, error.what());
        default:  // what may pass is no reason to refuse the region: run() says it
          return;
      }
    }
  }

  std::optional<runtime::LateFailure> late_failure() const override {
    std::optional<runtime::LateFailure> first;
    if (where_ != Where::fails || is_forked()) return first;
    for (const KernelState& state : states_) {
      if (!state.failed()) continue;
      const runtime::LateFailure failure = state.failure();
      if (!first || failure.time < first->time) first = failure;
    }
    return first;
  }

  void forget_failures(int device, Stream stream) const override {
    if (device != device_.properties().ordinal) return;
    for (KernelState& state : states_) {
      if (state.stream() != stream || !state.failed()) continue;
      try {
        const Device::Current current(device_);
        state.forget();
      } catch (const Error&) {  // the device is lost: nothing runs there any more
      }
    }
  }

  void drain() const override {
    const bool any = std::any_of(states_.begin(), states_.end(), [](const KernelState& s) { return s.in_flight; });
    if (!any || is_forked()) return;
    try {
      device_.synchronize();
    } catch (const Error&) {  // said by whoever uses the device next
    }
    for (KernelState& state : states_) state.in_flight = false;
  }

  std::string listing() const override { return listing_; }

  std::string summary() const override {
    const Properties& of = device_.properties();
    std::string text = "CUDA, " + of.name + " (device " + std::to_string(of.ordinal) + ")";
    // Who runs the kernel may have the lock and wait for the GIL, which the caller has.
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock) return text;
    for (const auto& [shape, kernel] : plans_.variants()) text += "\n" + describe(shape, kernel);
    text += "\n" + barriers();
    for (const auto& [kind, tuning] : plans_.tunings())
      text += (tuning.done() ? "\ntuned for " : "\ntuning for ") + kind + ": " + tuning.summary();
    for (const Transfer::Move& move : moves_) {
      text += std::string("\ntransfer ") + (move.out ? "from" : "to") + " the device: " + move.array->name + ", " +
              std::to_string(move.bytes) + " bytes";
    }
    if (!moves_.empty() && seconds_ > 2 * kernel_seconds_) {
      text += "\nhint: " + std::to_string(static_cast<int>(100 * (1 - kernel_seconds_ / seconds_))) +
              " % of the time is around the kernel, for transfers; arrays of CuPy or torch stay on the device";
    }
    return text;
  }

 private:
  /// What fails, waits for others or has results is told in memory that is pinned.
  bool tells() const {
    const KernelCode& code = plans_.code();
    const bool results = std::find(wanted_.begin(), wanted_.end(), true) != wanted_.end() || !told_.empty();
    return code.checks || code.meets || results;
  }

  struct Param {
    const ir::Value* value;
    size_t word;
    bool written = false;
  };
  std::string describe(const KernelShape& shape, const Variant& kernel) const {
    std::string text = kernel.blocks ? std::to_string(kernel.blocks) + " blocks of " : "blocks of ";
    text += std::to_string(shape.block) + " threads, " + std::to_string(shape.lanes) + " lanes a worker, ";
    if (!kernel.module) return text + "not compiled so far" + products(shape, kernel) + solution(kernel);
    char how[128];
    std::snprintf(how, sizeof how, "%s in %.1f ms (text %.1f, image %.1f, loading %.1f)",
                  kernel.from_disk ? "read from the cache" : "compiled by NVRTC",
                  (kernel.text_seconds + kernel.image_seconds + kernel.load_seconds) * 1e3, kernel.text_seconds * 1e3,
                  kernel.image_seconds * 1e3, kernel.load_seconds * 1e3);
    text += std::to_string(kernel.function.registers) + " registers a thread, ";
    if (kernel.function.local_bytes) text += std::to_string(kernel.function.local_bytes) + " bytes of them spilled, ";
    return text + how + marches(kernel.code) + products(shape, kernel) + solution(kernel);
  }

  /// The nests whose threads go in order along a dimension.
  std::string marches(const KernelCode& code) const {
    std::string text;
    for (const March& march : code.marches) {
      text += "\nthreads go along the rows of line " + std::to_string(graph_->locs[march.loc].line) + ", " +
              std::to_string(march.rows) + " at a time: a step loads " + std::to_string(march.loads) +
              " elements instead of " + std::to_string(march.loads_alone) + " and keeps " + std::to_string(march.kept) +
              " values for the next one";
    }
    return text;
  }

  /// Whether a library has computed the substitution or the factorization that the region is.
  std::string solution(const Variant& kernel) const {
    if ((!plans_.solve() && !plans_.factor()) || kernel.library.empty()) return {};
    const ir::Op* loop = graph_->body->first;
    while (loop && loop->code != ir::Opcode::for_) loop = loop->next;
    return std::string(plans_.solve() ? "\nsubstitution" : "\nfactorization") + " at line " +
           std::to_string(loop ? graph_->locs[loop->loc].line : 0) + ": " + kernel.library;
  }

  /// How the nests of the form of a matrix product are computed.
  std::string products(const KernelShape& shape, const Variant& kernel) const {
    std::string text;
    const std::vector<ProductSize>& products = plans_.part().products;
    for (size_t k = 0; k < products.size(); ++k) {
      const passes::Product& product = products[k].product;
      const ir::LocId loc = product.steps->loc ? product.steps->loc : product.nest[0]->loc;
      text += "\nproduct at line " + std::to_string(graph_->locs[loc].line) + ": ";
      const TileSize size = shape.tile_size(k);
      if (!kernel.library.empty() && !plans_.solve() && !plans_.factor() &&
          (shape.given < 0 || shape.given == static_cast<int>(k))) {
        text += kernel.library;
        if (shape.given < 0) continue;
        const bool before = kernel.code.before_given, behind = kernel.code.behind_given;
        text += before && behind ? ", between two launches" : before ? ", behind the launch" : ", before the launch";
        continue;
      }
      if (size == TileSize::none) {
        text += "a thread for each element, it is too small for tiles";
        continue;
      }
      const Tiling tiling = tiling_of(product, size, shape.block, shape.shared);
      text += "tiles of " + std::to_string(tiling.rows) + " x " + std::to_string(tiling.columns);
      if (tiling.tensor && device_.properties().compute_capability >= 80) text += " on tensor cores";
    }
    return text;
  }

  /// What the passes have left of them. Reductions over all blocks meet once more each.
  std::string barriers() const {
    int all = 0, lanes = 0;
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      if (op.code == ir::Opcode::barrier_) ++(op.mapping == ir::Mapping::lanes ? lanes : all);
    });
    return "barriers: " + std::to_string(all) + " of all threads, " + std::to_string(lanes) + " of a worker's lanes";
  }

  static bool is_divided(const ir::Op& op) {
    for (const ir::Op* loop = ir::enclosing_loop(*op.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
      if (loop->mapping != ir::Mapping::none) return true;
    }
    return false;
  }

  /// Only what the caller does not need at once comes later, and what may never end does not: who waits can end it.
  Where how_it_runs() const {
    bool later = makes_on_device_ && told_.empty();
    for (bool wanted : wanted_) later &= !wanted;
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      later &= op.code != ir::Opcode::while_ || is_divided(op);
      if (op.code != ir::Opcode::check_ || plans_.part().made.count(&op)) return;
      later &= !op.check->declines && !op.check->has_state && !runtime::can_run_again(op.check->kind);
    });
    if (!later) return Where::waits;
    if (plans_.code().checks) return Where::fails;
    return plans_.solve() || plans_.factor() ? Where::pauses : Where::returns;
  }

  template <class F>
  static runtime::Status guarded(runtime::Invocation& call, F&& work) {
    try {
      return work();
    } catch (const Error& error) {
      call.error = error.what();
      call.device_memory = error.kind() == ErrorKind::out_of_memory;
    } catch (const std::bad_alloc&) {
      call.no_memory = true;
    }
    return runtime::Status::interrupted;
  }

  KernelState& state_of(Stream stream) const {
    for (KernelState& state : states_) {
      if (state.serves(stream)) return state;
    }
    return states_.emplace_back(device_, stream, result_words_ + wanted_.size(), tells());
  }

  /// What the last launch took, where it was measured.
  void finish_measurement(Stream stream) const {
    // While a stream is captured into a CUDA graph, nothing may wait.
    if (!measured_ || device_.is_capturing(stream)) return;
    Tuning* const tuning = std::exchange(measured_, nullptr);
    around_[1].synchronize();
    if (std::any_of(states_.begin(), states_.end(), [](const KernelState& s) { return s.failed(); })) return;
    plans_.measured(*tuning, around_[1].since(around_[0]) * 1e-3);
  }

  /// Computes a region that is one product or, with `solves`, one substitution or factorization by a library, where
  /// there is one and it can; whether it did.
  bool computed_by_library(Plan& plan, bool solves, const std::vector<Word>& words, Stream stream) const {
    const std::span<const Word> all(words);
    std::string& library = plan.kernel->library;
    if (plan.solved) {
      library = !solves          ? ""
                : plans_.solve() ? solve(*plans_.solve(), device_, stream, all.first(words_))
                                 : factor(*plans_.factor(), device_, stream, all.first(words_));
      if (solves && library.empty()) plan.alone = kCallsAlone;
      return !library.empty();
    }
    if (!plans_.is_for_library(plan)) return false;
    library = multiply(*plans_.whole(), device_, stream, Sizes(plans_.part(), plan.results.data()), all.first(words_),
                       all.subspan(words.size() - 2 * arrays_.size()));
    return !library.empty();
  }

  /// Can the library multiply? What a region computes with it in its middle cannot be begun again by a kernel.
  bool multiplies(Stream stream) const {
    if (multiplies_) return *multiplies_;
    constexpr int64_t n = 16;
    constexpr size_t bytes = n * n * sizeof(double);
    const DeviceMemory memory = device_.allocate(3 * bytes, stream);
    const auto matrix = [&](size_t k) { return Matrix{memory.address() + k * bytes, n, n, n, 1}; };
    std::string problem;
    multiplies_ = multiply(device_, stream, true, 1, 0, matrix(0), matrix(1), matrix(2), problem);
    return *multiplies_;
  }

  /// The kernel up to the nest, the sums, and the kernel from there on.
  void launch_around(const Device::Current& current, Plan& plan, const Launch& launch, Stream stream) const {
    Variant& kernel = *plan.kernel;
    const Sizes sizes(plans_.part(), plan.results.data());
    const GivenSums sums = sums_of(*plan.given, sizes);
    const auto size = static_cast<size_t>(ir::size_of(plan.given->type));
    DeviceMemory memory;
    if (!plan.shape.stored) memory = device_.allocate(static_cast<size_t>(sums.elements) * size, stream);
    const std::span<Word> words(plan.words);
    Word* const given = &words[kernel.code.given_words];
    given[0] = memory.address();
    given[1] = static_cast<Word>(sums.leading);
    given[2] = 1;
    if (kernel.code.before_given) device_.launch(current, kernel.function, launch, stream, words.data());
    std::string problem;
    if (!multiply(*plan.given, device_, stream, sizes, words.first(words_), words.last(2 * arrays_.size()),
                  memory.address(), problem))
      throw Error(ErrorKind::other, problem, "APPY_LIBCUBLAS=none leaves products to appy's own kernels");
    given[2] = 0;
    if (kernel.code.behind_given) device_.launch(current, kernel.function, launch, stream, words.data());
    if (kernel.library.empty()) kernel.library = name_of(*blas(problem));
  }

  runtime::Status run_on_device(runtime::Invocation& call, const Device::Current& current) const {
    finish_measurement(call.stream);
    runtime::Status before;
    Plan* const planned = plans_.find(call.args, &before);
    if (!planned) return before;
    Plan& plan = *planned;
    if (plan.tuning) plans_.next(plan, call.args);
    const Stream stream = call.stream;
    if (plan.given && !multiplies(stream)) plans_.do_without_library(plan, call.args);
    Variant& kernel = *plan.kernel;
    const KernelShape& shape = plan.shape;
    KernelState& state = state_of(stream);
    // The wait for it was interrupted.
    if (state.is_leaving() || (where_ == Where::waits && state.in_flight)) {
      if (!device_.wait(stream)) return runtime::Status::interrupted;
      state.in_flight = false;
      state.waited = state.launches;
      if (state.is_leaving()) {
        measured_ = nullptr;
        state.left();
      } else if (state.failed()) {
        state.forget();
      }
    }

    const bool timed = !makes_on_device_;
    // What becomes part of a CUDA graph runs later.
    const bool measured = plan.tuning && !plan.tuning->done() && !measured_ && !device_.is_capturing(stream);
    std::chrono::steady_clock::time_point begun;
    if (timed) begun = std::chrono::steady_clock::now();
    Transfer transfer(device_, stream);
    std::vector<Word>& words = plan.words;
    std::copy_n(call.args, words_, words.begin());
    for (size_t k = 0; k < params_.size(); ++k) {
      const Param& p = params_[k];
      if (p.value->type.is_view() && !on_device_[k]) {
        transfer.add(&words[p.word], *p.value, p.written);
      }
    }
    transfer.move_in();

    std::vector<DeviceMemory> own;
    struct Escaping {
      const ArrayUse* use;
      size_t memory;
      void* to;  // null: made when the kernel has told how large it is
      size_t bytes;
    };
    std::vector<Escaping> escaping;
    const size_t first_array = words.size() - 2 * arrays_.size();
    // What is captured into a CUDA graph runs at any time.
    const bool keeps = !arrays_.empty() && !device_.is_capturing(stream);
    auto room = static_cast<size_t>(keeps ? device_.properties().memory_bytes / kPartKept : 0);
    for (size_t k = 0; k < arrays_.size(); ++k) {
      const Plan::Array& array = plan.arrays[k];
      if (array.in_shared) continue;
      const ArrayUse& use = arrays_[k];
      const ir::Type& type = use.alloc->result()->type;
      if (!use.alloc->escapes && array.bytes <= room) {
        words[first_array + k] = state.array(k, array.bytes);
        room -= array.bytes;
        continue;
      }
      if (!use.alloc->escapes || !makes_on_device_ || array.told) {
        own.push_back(device_.allocate(array.bytes, stream));
        words[first_array + k] = own.back().address();
      }
      if (!use.alloc->escapes) continue;
      if (array.told) {
        escaping.push_back({&use, own.size() - 1, nullptr, 0});
        continue;
      }
      void* to = call.arrays->make(use.alloc->slot, type, array.extents.data());
      if (!to) {
        call.no_memory = true;
        return runtime::Status::interrupted;
      }
      if (makes_on_device_) {
        words[first_array + k] = reinterpret_cast<Word>(to);
      } else {
        escaping.push_back({&use, own.size() - 1, to, array.one});
      }
    }

    order_before(call.other_streams, stream);
    // While a stream is captured into a CUDA graph, nothing may wait.
    bool solves = plan.solved && plans_.is_for_library(plan) && !device_.is_capturing(stream);
    if (solves && plan.alone > 0) {
      --plan.alone;
      solves = false;
    }
    // The wait for the solution cannot be interrupted, that for what comes before it can.
    if (solves && !device_.wait(stream)) return runtime::Status::interrupted;
    if (timed || measured) {
      for (Event& event : around_) {
        if (!event) event = device_.make_event(true);
      }
      around_[0].record(stream);
    }
    plans_.launching(plan);
    if (plan.given || !computed_by_library(plan, solves, words, stream)) {
      plans_.make_ready(plan);
      kernel.blocks = plan.blocks;
      state.write_control(&words[words_], static_cast<size_t>(plan.blocks) * 2 * kernel.code.partial_bytes);
      Launch launch;
      launch.blocks[0] = static_cast<unsigned>(plan.blocks);
      launch.threads[0] = static_cast<unsigned>(shape.block);
      launch.shared_bytes = static_cast<unsigned>(plan.shared_bytes);
      launch.cooperative = kernel.code.meets && plan.blocks > 1;
      plan.given ? launch_around(current, plan, launch, stream)
                 : device_.launch(current, kernel.function, launch, stream, words.data());
    }
    plans_.launched();
    if (timed || measured) around_[1].record(stream);
    if (measured) measured_ = plan.tuning;
    order_after(call.other_streams, stream);
    state.in_flight = true;
    ++state.launches;
    if (where_ != Where::waits) {
      std::copy_n(plan.results.begin(), wanted_.size(), call.results);
      return runtime::Status::done;
    }
    if (!device_.wait(stream)) {
      state.leave();
      return runtime::Status::interrupted;
    }
    state.in_flight = false;
    state.waited = state.launches;
    if (state.failed()) {
      measured_ = nullptr;
      call.failure = state.failure().failure;
      call.failure.has_state = checks_[static_cast<size_t>(call.failure.check)]->check->has_state;
      if (call.failure.has_state) std::copy_n(state.results() + result_words_, wanted_.size(), call.results);
      state.forget();
      // The arrays of the host are what they were: the interpreter does it all, and fails as Python does.
      return moved_only_ ? runtime::Status::declined : runtime::Status::failed;
    }
    finish_measurement(call.stream);
    transfer.move_out();
    const Word* const device_results = state.results();
    const Word* extents = device_results + wanted_.size();
    for (Escaping& e : escaping) {
      const ir::Type& type = e.use->alloc->result()->type;
      if (!e.to) {
        e.bytes = static_cast<size_t>(ir::size_of(type.dtype));
        for (int d = 0; d < type.rank; ++d) e.bytes *= extents[d];
        e.to = call.arrays->make(e.use->alloc->slot, type, extents);
        extents += type.rank;
      }
      if (!e.to) {
        call.no_memory = true;
        return runtime::Status::interrupted;
      }
      const CUdeviceptr from = own[e.memory].address();
      if (e.bytes == 0) continue;
      if (makes_on_device_) {
        device_.copy(reinterpret_cast<CUdeviceptr>(e.to), from, e.bytes, stream);
      } else {
        device_.copy_out(e.to, from, e.bytes, stream);
      }
    }
    if (timed) {
      moves_ = transfer.moves();
      kernel_seconds_ += around_[1].since(around_[0]) * 1e-3;
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    }
    for (size_t k = 0; k < wanted_.size(); ++k) call.results[k] = wanted_[k] ? device_results[k] : plan.results[k];
    return runtime::Status::done;
  }

  void order_before(std::span<const uintptr_t> others, Stream stream) const {
    for (uintptr_t other : others) {
      Event done = device_.make_event();
      done.record(other);
      done.order(stream);
    }
  }
  void order_after(std::span<const uintptr_t> others, Stream stream) const {
    if (others.empty()) return;
    Event done = device_.make_event();
    done.record(stream);
    for (uintptr_t other : others) done.order(other);
  }

  std::unique_ptr<ir::Graph> graph_;
  std::vector<bool> on_device_;
  bool makes_on_device_;
  Device& device_;
  mutable std::future<void> pinned_;  // before the first launch
  mutable Plans plans_;
  const std::vector<ArrayUse>& arrays_;
  const std::vector<bool>& wanted_;
  const std::vector<const ir::Op*>& told_;
  size_t words_ = 0;
  std::vector<Param> params_;
  std::string listing_;
  size_t result_words_ = 0;
  std::vector<const ir::Op*> checks_;  // by their number
  Where where_ = Where::waits;
  bool moved_only_ = true;                  // nothing that it writes is the device's already
  mutable std::optional<bool> multiplies_;  // the library, as one small product has shown
  mutable std::mutex mutex_;
  mutable Tuning* measured_ = nullptr;  // whose launch is between around_
  mutable std::deque<KernelState> states_;
  // For reports, of runs with arrays that are moved:
  mutable std::vector<Transfer::Move> moves_;
  mutable std::array<Event, 2> around_;  // the kernel
  mutable double seconds_ = 0, kernel_seconds_ = 0;
};

}  // namespace

int multiprocessors(int ordinal) {
  try {
    return device(ordinal).properties().multiprocessors;
  } catch (const Error&) {
    return 0;
  }
}

bool wants_boxes() { return Wish::of_environment().boxes != 2; }

std::unique_ptr<runtime::Kernel> compile(const ir::Graph& graph, Options options) {
  try {
    return std::make_unique<DeviceKernel>(graph, std::move(options));
  } catch (const Error& error) {
    throw Abort(AbortId::no_gpu_, error.what());
  }
}

}  // namespace appy::gpu
