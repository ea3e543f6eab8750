#include "ir/sizes.h"

#include <unordered_map>
#include <utility>

#include "ir/builder.h"
#include "ir/formula.h"

namespace appy::ir {
namespace {

/// The same value from copies of the ops that make it.
class Copies {
 public:
  explicit Copies(Builder& b) : b_(b) {}

  Value* of(const Value& v) {
    if (!v.op) return const_cast<Value*>(&v);
    if (const auto known = made_.find(&v); known != made_.end()) return known->second;
    std::vector<Value*> operands;
    for (const Value* operand : v.op->operands) operands.push_back(of(*operand));
    Value* made = nullptr;
    switch (v.op->code) {
      case Opcode::const_:
        made = b_.constant(v.type.dtype, v.op->imm);
        break;
      case Opcode::dim_:
        made = b_.dim(operands[0], v.op->dim);
        break;
      case Opcode::cast_:
        made = b_.cast(operands[0], v.type.dtype);
        break;
      case Opcode::bitcast_:
        made = b_.bitcast(operands[0], v.type.dtype);
        break;
      default:
        made = b_.op(v.op->code, operands);
    }
    made_[&v] = made;
    return made;
  }

 private:
  Builder& b_;
  std::unordered_map<const Value*, Value*> made_;
};

}  // namespace

std::optional<bool> settle(Graph& graph, const Value& condition, std::span<const Word> args) {
  const std::optional<Formula> formula = Formula::of(&condition, graph);
  if (!formula || args.empty()) return {};
  const bool holds = (*formula)(args.data()) != 0;
  if (condition.op && condition.op->code == Opcode::const_) return holds;
  Builder b(graph);
  graph.body->first ? b.set_before(graph.body->first) : b.set_block(graph.body);
  Value* wanted = Copies(b).of(condition);
  if (!holds) wanted = b.op(Opcode::not_, {wanted});
  if (!Formula::of(wanted, graph)) return {};  // which is one step longer
  Check check;
  check.kind = CheckKind::sizes_;
  check.declines = true;
  b.check(std::move(check), wanted, {}, {});
  return holds;
}

}  // namespace appy::ir
