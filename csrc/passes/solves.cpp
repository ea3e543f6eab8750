// Regions that are one triangular substitution and nothing else: the graph says so from here on, whatever form later
// passes give to it. A library may compute it. All that is not known here is no match.
#include <optional>
#include <utility>
#include <vector>

#include "passes/idioms.h"
#include "passes/loops.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph) : graph_(graph) {}

  std::optional<ir::Solve> run() {
    if (graph_.may_alias || graph_.exact) return {};
    const OnlyLoop only = only_loop(graph_);
    rows_ = only.loop;
    s_.rows = only.length;
    if (!rows_) return {};
    i_ = induction(*rows_);
    if (!find_parts() || !find_sum()) return {};
    return s_;
  }

 private:
  /// store (load b[i] - sum) / load matrix[i, i], x[i]
  bool find_parts() {
    const ir::Block& body = body_of(*rows_);
    const Op* store = nullptr;
    for (const Op* op = body.first; op; op = op->next) {
      if (op->code == Opcode::store_) store = op;
    }
    if (!store || !is_element(*store, {i_})) return false;
    x_ = store->view();
    const ir::DType type = x_->type.dtype;
    if (type != ir::DType::f64_ && type != ir::DType::f32_) return false;
    const Value* stored = store->operands[0];
    if (const Op* quotient = defined_by(*stored, Opcode::div_)) {
      diagonal_ = defined_by(*quotient->operands[1], Opcode::load_);
      if (!diagonal_ || !is_element(*diagonal_, {i_, i_})) return false;
      stored = quotient->operands[0];
    }
    s_.unit = !diagonal_;
    const Op* difference = defined_by(*stored, Opcode::sub_);
    if (!difference) return false;
    const Op* right = defined_by(*difference->operands[0], Opcode::load_);
    steps_ = difference->operands[1]->op;
    if (!right || !is_element(*right, {i_}) || right->view()->type.dtype != type || !steps_) return false;
    s_.x = x_->index;
    s_.b = right->view()->index;
    std::vector<const Op*> all = {right, steps_, store};
    if (diagonal_) all.push_back(diagonal_);
    return has_only(body, all);
  }

  /// From 0, load matrix[i, j] * load x[j] is added.
  bool find_sum() {
    const SumOfProducts sum = sum_of_products(*steps_, x_->type.dtype);
    if (!sum.a) return false;
    for (const auto& [l, y] : {std::pair(sum.a, sum.b), std::pair(sum.b, sum.a)}) {
      if (y->view() != x_ || !is_element(*y, {sum.step})) continue;
      s_.transposed = is_element(*l, {sum.step, i_});
      if (!s_.transposed && !is_element(*l, {i_, sum.step})) continue;
      if (diagonal_ && diagonal_->view() != l->view()) continue;
      s_.matrix = l->view()->index;
      // Slices end where the matrix does, which has these rows and columns wherever there is a solution.
      return ends_at(*steps_, *i_, *l->view());
    }
    return false;
  }

  const ir::Graph& graph_;
  ir::Solve s_;
  const Op *rows_ = nullptr, *steps_ = nullptr, *diagonal_ = nullptr;
  const Value *i_ = nullptr, *x_ = nullptr;
};

}  // namespace

bool solves(ir::Graph& graph) {
  if (graph.solve) return false;
  graph.solve = Matcher(graph).run();
  return graph.solve.has_value();
}

}  // namespace appy::passes
