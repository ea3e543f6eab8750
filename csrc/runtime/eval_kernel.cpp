#include "runtime/eval_kernel.h"

#include <algorithm>

#include "ir/eval.h"
#include "support/check.h"

namespace appy::runtime {
namespace {

class EvalKernel final : public Kernel {
 public:
  explicit EvalKernel(const ir::Graph& graph) : graph_(ir::clone(graph)) {
    for (const ir::Value* param : graph_->body->args) words_ += ir::words_of(param->type);
    ir::walk(*graph_->body, [this](ir::Op& op) {
      if (op.code == ir::Opcode::check_) checks_.push_back(&op);
    });
  }

  Status run(Invocation& call) const override {
    ir::EvalResult r = ir::evaluate(*graph_, {call.args, words_});
    using Outcome = ir::EvalResult::Outcome;
    APPY_CHECK(r.outcome != Outcome::out_of_fuel, "the evaluator ran out of unlimited fuel");
    if (r.outcome == Outcome::declined) return Status::declined;
    for (const ir::EvalArray& array : r.arrays) {
      const std::vector<ir::Word> extents(array.extents.begin(), array.extents.end());
      void* data = call.arrays->make(array.slot, array.type, extents.data());
      if (!data) {
        call.no_memory = true;
        return Status::interrupted;
      }
      std::copy(array.bytes.begin(), array.bytes.end(), static_cast<char*>(data));
    }
    std::copy(r.results.begin(), r.results.end(), call.results);
    if (r.outcome == Outcome::done) return Status::done;
    APPY_CHECK(r.check >= 0 && static_cast<size_t>(r.check) < checks_.size(), "a failed check has an ordinal");
    call.failure.check = r.check;
    call.failure.has_state = checks_[static_cast<size_t>(r.check)]->check->has_state;
    std::copy_n(r.info.begin(), std::min(r.info.size(), call.failure.info.size()), call.failure.info.begin());
    return Status::failed;
  }

  std::string summary() const override { return "reference evaluator"; }

 private:
  std::unique_ptr<ir::Graph> graph_;
  std::vector<const ir::Op*> checks_;
  size_t words_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> make_eval_kernel(const ir::Graph& graph) { return std::make_unique<EvalKernel>(graph); }

}  // namespace appy::runtime
