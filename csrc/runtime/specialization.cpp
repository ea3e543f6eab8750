#include "runtime/specialization.h"

#include <algorithm>

#include "runtime/device_arrays.h"
#include "runtime/late.h"
#include "runtime/outputs.h"
#include "runtime/raise.h"

namespace appy::runtime {
namespace {

using ir::Opcode;

constexpr int64_t long_work = 2048;  // loop iterations that are worth releasing the GIL for

bool reads_what_it_writes(const ir::Graph& graph) {
  if (graph.may_alias) return true;
  std::vector<bool> read(graph.value_count()), written(graph.value_count());
  bool found = false;
  ir::walk(*graph.body, [&](ir::Op& op) {
    ir::Effect effect = ir::info(op.code).effect;
    bool loads = effect == ir::Effect::load, stores = effect == ir::Effect::store;
    if (effect == ir::Effect::atomic) loads = stores = true;
    if (!loads && !stores) return;
    if (ir::alloc_of(*op.view())) return;  // made anew by the next run
    size_t view = op.view()->id;
    if (loads) read[view] = true;
    if (stores) written[view] = true;
    found |= read[view] && written[view];
  });
  return found;
}

int depth_of(const ir::Block& block) {
  int depth = 0;
  for (const ir::Op* op = block.first; op; op = op->next) {
    int loop = op->code == Opcode::for_ || op->code == Opcode::while_;
    for (const ir::Block* inner : op->blocks) depth = std::max(depth, loop + depth_of(*inner));
  }
  return depth;
}

/// Keeps the pending exception while Python objects are written.
class SavedError {
 public:
  SavedError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~SavedError() { PyErr_Restore(type_, value_, traceback_); }
  SavedError(const SavedError&) = delete;
  SavedError& operator=(const SavedError&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

}  // namespace

Specialization::Specialization(std::unique_ptr<ir::Graph> graph, Signature signature, std::unique_ptr<Kernel> kernel,
                               const Scope& traced_in, std::string place)
    : graph_(std::move(graph)),
      signature_(std::move(signature)),
      kernel_(std::move(kernel)),
      guards_(signature_, *graph_, traced_in),
      place_(std::move(place)),
      where_(kernel_->where()),
      results_(graph_->body->last->operands.size()),
      reads_what_it_writes_(reads_what_it_writes(*graph_)),
      depth_(depth_of(*graph_->body)) {
  ir::walk(*graph_->body, [this](ir::Op& op) {
    if (op.code == Opcode::check_) checks_.push_back(&op);
    if (op.code == Opcode::while_) unbounded_ = true;
    if (op.code != Opcode::for_) return;
    for (const ir::Value* bound : {op.operands[0], op.operands[1]})
      unbounded_ |=
          bound->op && bound->op->code == Opcode::const_ && std::abs(static_cast<int64_t>(bound->op->imm)) >= long_work;
  });
  size_t word = 0;
  for (const ir::Value* param : graph_->body->args) {
    const ir::Type& type = param->type;
    if (!type.is_view() && ir::is_int(type.dtype)) counts_.push_back(word);
    for (int d = 0; type.is_view() && d < type.rank; d++) counts_.push_back(word + 1 + static_cast<size_t>(d));
    word += ir::words_of(type);
  }
  if (where_ != Kernel::Where::fails) return;
  for (const ir::Op* check : checks_) raised_.push_back(Ref::borrow(class_raised_by(*check, traced_in)));
  watch(this);
}

Specialization::~Specialization() {
  if (where_ == Kernel::Where::fails) forget(this);
}

bool Specialization::is_long(const Entry& entry) const {
  if (depth_ == 0) return false;
  if (unbounded_) return true;
  int64_t largest = 1;
  for (size_t word : counts_) largest = std::max(largest, static_cast<int64_t>(entry.args[word]));
  int64_t work = 1;
  for (int d = 0; d < depth_ && work < long_work; d++) work *= std::min(largest, long_work);
  return work >= long_work;
}

/// Without the GIL where the work is worth it.
Status Specialization::run(Invocation& call, const Entry& entry, bool wait) const {
  const auto released = [&](auto&& work) {
    PyThreadState* state = PyEval_SaveThread();
    const Status status = work();
    PyEval_RestoreThread(state);
    return status;
  };
  if (where_ == Kernel::Where::host) {
    return is_long(entry) ? released([&] { return kernel_->run(call); }) : kernel_->run(call);
  }
  if (where_ == Kernel::Where::waits) return released([&] { return kernel_->run(call); });
  const bool pauses = where_ == Kernel::Where::pauses;
  const Status status = pauses ? released([&] { return kernel_->run(call); }) : kernel_->run(call);
  return status == Status::done && wait ? released([&] { return kernel_->wait(call); }) : status;
}

Launch Specialization::launch(const Scope& scope, Entry& entry, int threads, PyObject** returned, Wait wait) const {
  Scratch<ir::Word, 32> results;
  MadeArrays arrays(signature_);
  Invocation call;
  call.args = entry.args.data();
  call.results = results.reserve(results_);
  call.threads = threads;
  call.arrays = &arrays;
  entry.hold(guards_.input_count());  // signal handlers and other threads may drop the frame's own references
  if (signature_.device >= 0) {
    const std::optional<uintptr_t> stream = current_stream(signature_.library, signature_.device);
    if (!stream) return Launch::declined;
    call.stream = *stream;
    std::erase(entry.streams, *stream);
    call.other_streams = entry.streams;
  }
  const bool waits = where_ == Kernel::Where::waits || (where_ == Kernel::Where::fails && wait != Wait::never) ||
                     ((where_ == Kernel::Where::returns || where_ == Kernel::Where::pauses) && wait == Wait::always);
  const Status status = run(call, entry, waits);
  // What was launched before may have failed before.
  if (waits && status != Status::interrupted && fault_told() && raise_late_failure(this, &scope)) return Launch::raised;
  switch (status) {
    case Status::declined:
      return Launch::declined;
    case Status::failed:
      return fail(call, arrays, scope, entry);
    case Status::interrupted:
      if (call.failure.has_state) {
        SavedError pending;
        if (!write_outputs(signature_, scope, call.results, entry.objects.data(), arrays, 0, returned)) PyErr_Clear();
      }
      if (call.no_memory && !PyErr_Occurred()) PyErr_NoMemory();
      if (!call.error.empty() && !PyErr_Occurred()) {
        raise_device_error(call.device_memory, place_.empty() ? call.error : place_ + ": " + call.error);
      }
      return Launch::raised;
    case Status::done:
      break;
  }
  auto exit = signature_.exit < 0 ? 0 : static_cast<int64_t>(call.results[signature_.exit]);
  if (!write_outputs(signature_, scope, call.results, entry.objects.data(), arrays, exit, returned))
    return Launch::raised;
  return exit ? Launch::exited : Launch::done;
}

Launch Specialization::fail(Invocation& call, const MadeArrays& arrays, const Scope& scope, Entry& entry) const {
  const ir::Op& check = *checks_[static_cast<size_t>(call.failure.check)];
  if (check.check->declines) return Launch::declined;
  if (can_run_again(check) && !reads_what_it_writes_) return Launch::declined;
  if (call.failure.has_state) {
    if (call.failure.iteration < 0) call.failure.iteration = iteration_of(check, call.results);
    PyObject* returned = nullptr;
    if (!write_outputs(signature_, scope, call.results, entry.objects.data(), arrays, 0, &returned))
      return Launch::raised;
  }
  raise(call.failure, scope);
  return Launch::raised;
}

void Specialization::raise(const Failure& failure, const Scope& scope) const {
  raise_failure(*checks_[static_cast<size_t>(failure.check)], failure, scope);
}

LateError Specialization::late_error(const LateFailure& late) const {
  const auto number = static_cast<size_t>(late.failure.check);
  return runtime::late_error(*checks_[number], late.failure, raised_[number].get(), place_, late.device);
}

}  // namespace appy::runtime
