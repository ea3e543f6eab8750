#include "gpu/kernel.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "gpu/cache.h"
#include "gpu/codegen.h"
#include "gpu/device.h"
#include "gpu/host_part.h"
#include "gpu/kernel_state.h"
#include "gpu/prelude.h"
#include "gpu/shape.h"
#include "gpu/transfer.h"
#include "support/abort.h"

namespace appy::gpu {

namespace {

using ir::Word;

/// Blocks that a multiprocessor gets one after the other where they need not be resident together: enough that the
/// last ones to finish leave little idle.
constexpr int64_t waves = 8;

class DeviceKernel final : public runtime::Kernel {
 public:
  DeviceKernel(const ir::Graph& graph, Options options)
      : graph_(ir::clone(graph)),
        options_(std::move(options)),
        device_(device(options_.device)),
        part_(host_part_of(*graph_)),
        host_(options_.compile_host(*part_.graph)),
        results_(part_.graph->body->last->operands.size()) {
    for (const ir::Value* v : graph_->body->args) {
      params_.push_back({v, words_});
      words_ += v->type.is_view() ? 1 + 2 * static_cast<size_t>(v->type.rank) : 1;
    }
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      if (!op.access) return;
      for (Param& p : params_) {
        if (p.value != op.view()) continue;
        p.written |= op.code != ir::Opcode::load_;
      }
    });
    wanted_ = part_.known;
    wanted_.flip();
    size_t told_words = 0;
    for (const ArraySize& array : part_.arrays) {
      const bool known = std::all_of(array.extents.begin(), array.extents.end(), [](int word) { return word >= 0; });
      if (known || !array.alloc->escapes) continue;
      told_.push_back(array.alloc);
      told_words += array.extents.size();
    }
    options_.on_device.resize(params_.size());
    for (size_t k = 0; k < params_.size(); ++k) moved_only_ &= !(params_[k].written && options_.on_device[k]);
    // The first shape now, so that what has no form on the device is found out before anything runs.
    KernelShape first;
    wish_.grant(first);
    const KernelCode code = generate(*graph_, codegen_options(first));
    for (const ArrayUse& use : code.arrays) {
      const auto size = std::find_if(part_.arrays.begin(), part_.arrays.end(),
                                     [&](const ArraySize& a) { return a.alloc == use.alloc; });
      if (std::any_of(size->most.begin(), size->most.end(), [](int word) { return word < 0; })) {
        const ir::Loc& at = graph_->locs[use.alloc->loc];
        throw Abort(AbortId::device_, "an array whose size follows from values in arrays", at.line, at.file);
      }
    }
    arrays_ = code.arrays;
    meets_ = code.meets;
    if (options_.keep_listing) listing_ = code.text;
    result_words_ = wanted_.size() + told_words;
    where_ = how_it_runs(code);
  }
  ~DeviceKernel() override { drain(); }

  runtime::Status run(runtime::Invocation& call) const override {
    return guarded(call, [&] {
      std::lock_guard lock(mutex_);
      const Device::Current current(device_);
      return run_on_device(call);
    });
  }

  Where where() const override { return where_; }

  runtime::Status wait(runtime::Invocation& call) const override {
    return guarded(call,
                   [&] { return device_.wait(call.stream) ? runtime::Status::done : runtime::Status::interrupted; });
  }

  void prepare(const Word* args) const override {
    try {
      std::lock_guard lock(mutex_);
      std::vector<Word> results(results_);
      if (compute_sizes(args, results.data()) != runtime::Status::done) return;
      variant(whole_shape(args, Sizes(part_, results.data())));
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
    for (const auto& [shape, kernel] : variants_) text += "\n" + describe(shape, kernel);
    text += "\n" + barriers();
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
  struct Param {
    const ir::Value* value;
    size_t word;
    bool written = false;
  };
  struct Variant {
    KernelCode code;
    std::shared_ptr<Module> module;
    Function function;
    bool from_disk = false;
    double seconds = 0;              // to compile or read, and load it
    int64_t blocks = 0;              // of the last launch
    std::map<size_t, int> resident;  // blocks a multiprocessor, by bytes of shared memory
  };

  CodegenOptions codegen_options(const KernelShape& shape) const {
    CodegenOptions options;
    options.shape = shape;
    options.made = part_.made;
    options.results = wanted_;
    options.told = told_;
    options.unaligned = options_.unaligned;
    return options;
  }

  std::string describe(const KernelShape& shape, const Variant& kernel) const {
    char how[64];
    std::snprintf(how, sizeof how, "%s in %.1f ms", kernel.from_disk ? "read from the cache" : "compiled by NVRTC",
                  kernel.seconds * 1e3);
    std::string text = kernel.blocks ? std::to_string(kernel.blocks) + " blocks of " : "blocks of ";
    text += std::to_string(shape.block) + " threads, " + std::to_string(shape.lanes) + " lanes a worker, ";
    text += std::to_string(kernel.function.registers) + " registers a thread, ";
    if (kernel.function.local_bytes) text += std::to_string(kernel.function.local_bytes) + " bytes of them spilled, ";
    return text + how;
  }

  /// What the passes have left of them. Reductions over all blocks meet once more each.
  std::string barriers() const {
    int all = 0, lanes = 0;
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      if (op.code == ir::Opcode::barrier_) ++(op.mapping == ir::Mapping::lanes ? lanes : all);
    });
    return "barriers: " + std::to_string(all) + " of all threads, " + std::to_string(lanes) + " of a worker's lanes";
  }

  /// Only what the caller does not need at once comes later.
  Where how_it_runs(const KernelCode& code) const {
    bool later = options_.makes_on_device && told_.empty();
    for (bool wanted : wanted_) later &= !wanted;
    ir::walk(*graph_->body, [&](const ir::Op& op) {
      if (op.code != ir::Opcode::check_ || part_.made.count(&op)) return;
      later &= !op.check->declines && !runtime::can_run_again(op.check->kind);
    });
    if (!later) return Where::waits;
    return code.checks ? Where::fails : Where::returns;
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

  runtime::Status compute_sizes(const Word* args, Word* results) const {
    runtime::Invocation on_host;
    on_host.args = args;
    on_host.results = results;
    return host_->run(on_host);
  }

  KernelState& state_of(Stream stream) const {
    for (KernelState& state : states_) {
      if (state.stream() == stream) return state;
    }
    return states_.emplace_back(device_, stream, result_words_);
  }

  bool is_told(const ir::Op* alloc) const { return std::find(told_.begin(), told_.end(), alloc) != told_.end(); }

  Variant& variant(const KernelShape& shape) const {
    const auto found = variants_.find(shape);
    if (found != variants_.end()) return found->second;
    const auto begun = std::chrono::steady_clock::now();
    Variant made;
    made.code = generate(*graph_, codegen_options(shape));
    Source source;
    source.name = made.code.entry + ".cu";
    source.text = made.code.text;
    source.headers = {{"appy_ptx.h", std::string(ptx_header)}, {"appy_device.h", std::string(device_header)}};
    source.options = {"--std=c++17", "--fmad=false", "--extra-device-vectorization"};
    const Image image = cached_compile(source, device_.properties().compute_capability, &made.from_disk);
    made.module = device_.load(image);
    made.function = made.module->function(made.code.entry);
    made.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
    return variants_.emplace(shape, std::move(made)).first->second;
  }

  KernelShape whole_shape(const Word* args, const Sizes& sizes) const {
    KernelShape shape = shape_for(sizes, arrays_, meets_, device_.properties(), wish_);
    shape.narrow = is_narrow(*graph_, args, sizes);
    return shape;
  }

  /// Blocks of the kernel that a multiprocessor holds at once.
  int residents(Variant& kernel, const KernelShape& shape, size_t shared) const {
    const auto known = kernel.resident.find(shared);
    if (known != kernel.resident.end()) return known->second;
    if (shared > static_cast<size_t>(device_.properties().shared_bytes_per_block)) {
      device_.allow_shared(kernel.function, static_cast<int>(shared));
    }
    const int count = std::max(device_.max_active_blocks(kernel.function, shape.block, shared), 1);
    return kernel.resident.emplace(shared, count).first->second;
  }

  runtime::Status run_on_device(runtime::Invocation& call) const {
    std::vector<Word> results(results_);
    const runtime::Status before = compute_sizes(call.args, results.data());
    if (before != runtime::Status::done) return before;
    const Sizes sizes(part_, results.data());
    const Properties& properties = device_.properties();
    const KernelShape shape = whole_shape(call.args, sizes);
    Variant& kernel = variant(shape);
    const std::vector<size_t> in_shared = shared_offsets(sizes, arrays_, shape, kernel.code.shared_bytes);
    const size_t shared = shape.shared ? in_shared.back() : kernel.code.shared_bytes;
    int64_t blocks = wish_.blocks > 0 ? wish_.blocks : blocks_for(sizes, shape);
    const int64_t resident = int64_t{properties.multiprocessors} * residents(kernel, shape, shared);
    blocks = std::min(blocks, kernel.code.meets ? resident : resident * waves);
    const Stream stream = call.stream;
    KernelState& state = state_of(stream);
    if (where_ == Where::waits && state.in_flight) {  // the wait for it was interrupted
      if (!device_.wait(stream)) return runtime::Status::interrupted;
      state.in_flight = false;
      state.forget();
    }

    kernel.blocks = blocks;
    const auto begun = std::chrono::steady_clock::now();
    Transfer transfer(device_, stream);
    std::vector<Word> words(kernel.code.words);
    std::copy_n(call.args, words_, words.begin());
    for (size_t k = 0; k < params_.size(); ++k) {
      const Param& p = params_[k];
      if (p.value->type.is_view() && !options_.on_device[k]) {
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
    const size_t first_array = kernel.code.words - 2 * kernel.code.arrays.size();
    for (size_t k = 0; k < kernel.code.arrays.size(); ++k) {
      const ArrayUse& use = kernel.code.arrays[k];
      const ArraySize& size = part_.arrays[k];
      words[first_array + kernel.code.arrays.size() + k] =
          static_cast<Word>(std::max<int64_t>(sizes.elements(size), 1));
      if (use.owner == ArrayUse::Owner::worker && shape.shared) {
        words[first_array + k] = in_shared[k];
        continue;
      }
      const int64_t threads = blocks * shape.block;
      const ir::Type& type = use.alloc->result()->type;
      const size_t bytes = bytes_of(sizes, use, size,
                                    use.owner == ArrayUse::Owner::worker   ? threads / shape.lanes
                                    : use.owner == ArrayUse::Owner::thread ? threads
                                                                           : 1);
      const bool told = is_told(use.alloc);
      if (!use.alloc->escapes || !options_.makes_on_device || told) {
        own.push_back(device_.allocate(bytes, stream));
        words[first_array + k] = own.back().address();
      }
      if (!use.alloc->escapes) continue;
      if (told) {
        escaping.push_back({&use, own.size() - 1, nullptr, 0});
        continue;
      }
      std::vector<Word> extents;
      for (int word : size.extents) extents.push_back(static_cast<Word>(std::max<int64_t>(sizes.at(word, 0), 0)));
      void* to = call.arrays->make(use.alloc->slot, type.dtype, type.rank, extents.data());
      if (!to) {
        call.no_memory = true;
        return runtime::Status::interrupted;
      }
      if (options_.makes_on_device) {
        words[first_array + k] = reinterpret_cast<Word>(to);
        continue;
      }
      escaping.push_back({&use, own.size() - 1, to,
                          static_cast<size_t>(sizes.elements(size)) * static_cast<size_t>(ir::size_of(type.dtype))});
    }

    state.write_control(&words[words_], static_cast<size_t>(blocks) * 2 * kernel.code.partial_bytes);
    Launch launch;
    launch.blocks[0] = static_cast<unsigned>(blocks);
    launch.threads[0] = static_cast<unsigned>(shape.block);
    launch.shared_bytes = static_cast<unsigned>(shared);
    launch.cooperative = kernel.code.meets && blocks > 1;
    order_before(call.other_streams, stream);
    const bool timed = !options_.makes_on_device;
    if (timed) {
      for (Event& event : around_) {
        if (!event) event = device_.make_event(true);
      }
      around_[0].record(stream);
    }
    device_.launch(kernel.function, launch, stream, words.data());
    if (timed) around_[1].record(stream);
    order_after(call.other_streams, stream);
    state.in_flight = true;
    if (where_ != Where::waits) {
      std::copy_n(results.begin(), wanted_.size(), call.results);
      return runtime::Status::done;
    }
    if (!device_.wait(stream)) return runtime::Status::interrupted;
    state.in_flight = false;
    if (state.failed()) {
      call.failure = state.failure().failure;
      state.forget();
      // The arrays of the host are what they were: the interpreter does it all, and fails as Python does.
      return moved_only_ ? runtime::Status::declined : runtime::Status::failed;
    }
    transfer.move_out();
    const Word* const device_results = state.results();
    const Word* extents = device_results + wanted_.size();
    for (Escaping& e : escaping) {
      const ir::Type& type = e.use->alloc->result()->type;
      if (!e.to) {
        e.bytes = static_cast<size_t>(ir::size_of(type.dtype));
        for (int d = 0; d < type.rank; ++d) e.bytes *= extents[d];
        e.to = call.arrays->make(e.use->alloc->slot, type.dtype, type.rank, extents);
        extents += type.rank;
      }
      if (!e.to) {
        call.no_memory = true;
        return runtime::Status::interrupted;
      }
      const CUdeviceptr from = own[e.memory].address();
      if (e.bytes == 0) continue;
      if (options_.makes_on_device) {
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
    for (size_t k = 0; k < wanted_.size(); ++k) call.results[k] = wanted_[k] ? device_results[k] : results[k];
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
  Options options_;
  Device& device_;
  HostPart part_;
  std::unique_ptr<runtime::Kernel> host_;
  size_t results_;
  size_t words_ = 0;
  std::vector<Param> params_;
  std::vector<bool> wanted_;
  std::vector<const ir::Op*> told_;
  std::vector<ArrayUse> arrays_;
  bool meets_ = false;
  std::string listing_;
  size_t result_words_ = 0;
  Where where_ = Where::waits;
  const Wish wish_ = Wish::of_environment();
  bool moved_only_ = true;  // nothing that it writes is the device's already
  mutable std::mutex mutex_;
  mutable std::map<KernelShape, Variant> variants_;
  mutable std::deque<KernelState> states_;
  // For reports, of runs with arrays that are moved:
  mutable std::vector<Transfer::Move> moves_;
  mutable std::array<Event, 2> around_;  // the kernel
  mutable double seconds_ = 0, kernel_seconds_ = 0;
};

}  // namespace

std::unique_ptr<runtime::Kernel> compile(const ir::Graph& graph, Options options) {
  try {
    return std::make_unique<DeviceKernel>(graph, std::move(options));
  } catch (const Error& error) {
    throw Abort(AbortId::no_gpu_, error.what());
  }
}

}  // namespace appy::gpu
