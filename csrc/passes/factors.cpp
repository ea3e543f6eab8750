// Regions that are Cholesky's factorization and nothing else, by columns or by rows: the graph says so from here on,
// whatever form later passes give to it. A library may compute it. All that is not known here is no match.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "passes/idioms.h"
#include "passes/loops.h"
#include "passes/pass.h"

namespace appy::passes {

using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Matcher {
 public:
  explicit Matcher(const ir::Graph& graph) : graph_(graph) {}

  std::optional<ir::Factorization> run() {
    if (graph_.may_alias || graph_.exact) return {};
    const OnlyLoop only = only_loop(graph_);
    outer_ = only.loop;
    f_.columns = only.length;
    if (!outer_ || !find_statements()) return {};
    at_ = induction(*outer_);
    f_.matrix = matrix_->index;
    for (const bool transposed : {false, true}) {
      f_.transposed = transposed;
      if (find_diagonal() && (find_column() || find_row())) return f_;
    }
    return {};
  }

 private:
  /// One store and one loop that leaves nothing but what it has stored.
  bool find_statements() {
    for (const Op* op = body_of(*outer_).first; op; op = op->next) {
      if (op->code == Opcode::store_) {
        if (store_) return false;
        store_ = op;
      } else if (op->code == Opcode::for_ && op->results.empty()) {
        if (inner_) return false;
        inner_ = op;
        inner_is_first_ = !store_;
      }
    }
    if (!store_ || !inner_ || !counts_up(*inner_)) return false;
    matrix_ = store_->view();
    const ir::DType type = matrix_->type.dtype;
    return !matrix_->op && (type == ir::DType::f64_ || type == ir::DType::f32_);
  }

  bool is_at(const Op& access, const Value* i, const Value* j) const {
    return access.view() == matrix_ && (f_.transposed ? is_element(access, {j, i}) : is_element(access, {i, j}));
  }

  /// load A[i, j] - the sum over k < `until` of A[i, k] * A[j, k]
  struct Rest {
    const Op *load = nullptr, *sum = nullptr;
  };
  Rest rest_of(const Value& v, const Value* i, const Value* j, const Value* until) const {
    const Op* difference = defined_by(v, Opcode::sub_);
    if (!difference) return {};
    const Op *load = defined_by(*difference->operands[0], Opcode::load_), *loop = difference->operands[1]->op;
    if (!load || !is_at(*load, i, j) || !loop || !ends_at(*loop, *until, *matrix_)) return {};
    const SumOfProducts sum = sum_of_products(*loop, matrix_->type.dtype);
    if (!sum.a) return {};
    for (const auto& [x, y] : {std::pair(sum.a, sum.b), std::pair(sum.b, sum.a)}) {
      if (is_at(*x, i, sum.step) && is_at(*y, j, sum.step)) return {load, loop};
    }
    return {};
  }

  /// store sqrt (what is left of A[j, j]), A[j, j]
  bool find_diagonal() {
    const Op* root = defined_by(*store_->operands[0], Opcode::sqrt_);
    if (!root || !is_at(*store_, at_, at_)) return false;
    diagonal_ = rest_of(*root->operands[0], at_, at_, at_);
    return diagonal_.load != nullptr;
  }

  /// Behind it, for i > j: store (what is left of A[i, j]) / A[j, j], A[i, j]
  bool find_column() const {
    const Op* next = defined_by(*inner_->operands[0], Opcode::add_);
    if (inner_is_first_ || !next || inner_->operands[1] != outer_->operands[1]) return false;
    const bool is_next = (next->operands[0] == at_ && constant(*next->operands[1]) == 1) ||
                         (next->operands[1] == at_ && constant(*next->operands[0]) == 1);
    return is_next && divides(induction(*inner_), at_, at_);
  }

  /// Before it, for j < i in order: store (what is left of A[i, j]) / A[j, j], A[i, j]
  bool find_row() const {
    if (!inner_is_first_ || !counts_from_zero(*inner_) || !ends_at(*inner_, *at_, *matrix_)) return false;
    for (const Op* op = diagonal_.sum; op; op = op->next) {
      if (op == inner_) return false;
    }
    return !has_permission(*inner_) && divides(at_, induction(*inner_), induction(*inner_));
  }

  bool divides(const Value* i, const Value* j, const Value* until) const {
    const ir::Block& body = body_of(*inner_);
    const Op* store = nullptr;
    for (const Op* op = body.first; op; op = op->next) {
      if (op->code == Opcode::store_) store = op;
    }
    if (!store || !is_at(*store, i, j)) return false;
    const Op* quotient = defined_by(*store->operands[0], Opcode::div_);
    if (!quotient) return false;
    const Rest left = rest_of(*quotient->operands[0], i, j, until);
    if (!left.load) return false;
    std::vector<const Op*> outside = {diagonal_.load, diagonal_.sum, store_, inner_},
                           inside = {left.load, left.sum, store};
    const Value& by = *quotient->operands[1];
    if (&by != store_->operands[0] || inner_is_first_) {
      const Op* load = defined_by(by, Opcode::load_);
      if (!load || !is_at(*load, j, j)) return false;
      if (load->parent == &body) {
        inside.push_back(load);
      } else {
        // What the diagonal has become, not what was there.
        for (const Op* op = load; op; op = op->next) {
          if (op == store_) return false;
        }
        outside.push_back(load);
      }
    }
    return has_only(body, inside) && has_only(body_of(*outer_), outside);
  }

  const ir::Graph& graph_;
  ir::Factorization f_;
  const Op *outer_ = nullptr, *inner_ = nullptr, *store_ = nullptr;
  bool inner_is_first_ = false;
  const Value *at_ = nullptr, *matrix_ = nullptr;
  Rest diagonal_;
};

}  // namespace

bool resembles_factorization(const ir::Graph& graph) {
  const auto is_view = [](const Value* v) { return v->type.is_view(); };
  const auto& parameters = graph.body->args;
  if (std::count_if(parameters.begin(), parameters.end(), is_view) != 1) return false;
  int roots = 0, quotients = 0, stores = 0;
  ir::walk(*graph.body, [&](const Op& op) {
    roots += op.code == Opcode::sqrt_;
    quotients += op.code == Opcode::div_;
    stores += op.code == Opcode::store_;
  });
  return roots == 1 && quotients == 1 && stores == 2;
}

bool factors(ir::Graph& graph) {
  if (graph.factorization) return false;
  graph.factorization = Matcher(graph).run();
  return graph.factorization.has_value();
}

}  // namespace appy::passes
