#include "gpu/host_part.h"

#include <algorithm>
#include <map>

#include "ir/builder.h"
#include "passes/loops.h"

namespace appy::gpu {

using ir::Mapping;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Splitter {
 public:
  explicit Splitter(const ir::Graph& graph)
      : from_(graph), to_(std::make_unique<ir::Graph>()), builder_(*to_), of_(graph.value_count()) {}

  HostPart run() {
    HostPart part;
    to_->name = from_.name;
    to_->exact = from_.exact;
    for (const Value* arg : from_.body->args) {
      Value* copy = ir::add_arg(*to_->body, arg->type, arg->name);
      copy->range = arg->range;
      of_[arg->id] = copy;
    }
    const Op* yield = nullptr;
    for (const Op* op = from_.body->first; op; op = op->next) {
      if (op->code == Opcode::yield_) yield = op;
      if (op->code == Opcode::check_ && take_check(*op)) part.made.insert(op);
      if (ir::is_pure(op->code)) take(*op);
    }
    for (const Value* v : yield->operands) {
      Value* known = of_[v->id];
      part.known.push_back(known != nullptr);
      results_.push_back(known ? known : builder_.constant(v->type.dtype, 0));
    }
    nests(*from_.body, part);
    ir::walk(*from_.body, [&](const Op& op) {
      if (op.code != Opcode::alloc_) return;
      ArraySize& size = part.arrays.emplace_back();
      size.alloc = &op;
      for (const Value* extent : op.operands) size.extents.push_back(word(of_[extent->id]));
    });
    builder_.yield(results_);
    part.graph = std::move(to_);
    return part;
  }

 private:
  bool take(const Op& op) {
    if (op.code == Opcode::dim_ && ir::alloc_of(*op.operands[0])) {
      of_[op.result()->id] = of_[op.operands[0]->op->operands[static_cast<size_t>(op.dim)]->id];
      return of_[op.result()->id] != nullptr;
    }
    std::vector<Value*> operands;
    for (const Value* v : op.operands) {
      if (!of_[v->id]) return false;
      operands.push_back(of_[v->id]);
    }
    Op* copy = to_->new_op(op.code, 0);
    copy->operands = std::move(operands);
    copy->imm = op.imm;
    copy->dim = op.dim;
    of_[op.result()->id] = ir::add_result(*copy, op.result()->type);
    to_->body->append(copy);
    return true;
  }

  bool take_check(const Op& op) {
    if (!op.check->declines || !of_[op.operands[0]->id]) return false;
    ir::Check check;
    check.kind = ir::CheckKind::decline_;
    check.declines = true;
    builder_.check(std::move(check), of_[op.operands[0]->id], {}, {});
    return true;
  }

  int word(Value* v) {
    if (!v) return -1;
    results_.push_back(v);
    return static_cast<int>(results_.size()) - 1;
  }

  Value* op(Opcode code, Value* a, Value* b) { return builder_.op(code, {a, b}); }

  int trips(const Op& loop) {
    Value *lower = of_[loop.operands[0]->id], *upper = of_[loop.operands[1]->id];
    const auto step = passes::constant(*loop.operands[2]);
    if (!lower || !upper || !step || *step == 0) return -1;
    Value* span = op(Opcode::sub_, upper, lower);
    if (*step != 1) {
      span = op(Opcode::floordiv_, op(Opcode::add_, span, builder_.i64(*step - (*step > 0 ? 1 : -1))),
                builder_.i64(*step));
    }
    return word(op(Opcode::pymax_, span, builder_.i64(0)));
  }

  void nests(const ir::Block& block, HostPart& part) {
    for (const Op* at = block.first; at; at = at->next) {
      if (at->mapping == Mapping::threads || at->mapping == Mapping::workers) {
        if (at->code == Opcode::for_) nest(*at, part);
      } else {
        for (const ir::Block* inner : at->blocks) nests(*inner, part);
      }
    }
  }

  void nest(const Op& outer, HostPart& part) {
    NestSize& size = part.nests.emplace_back();
    size.mapping = outer.mapping;
    for (const Op* loop = &outer; loop;) {
      size.trips.push_back(trips(*loop));
      const Op* inner = loop->blocks[0]->first;
      while (inner && !(inner->code == Opcode::for_ && inner->mapping == outer.mapping)) inner = inner->next;
      loop = inner;
    }
    ir::walk(*outer.blocks[0], [&](const Op& op) {
      if (op.mapping != Mapping::lanes || op.code != Opcode::for_) return;
      const int count = trips(op);
      size.lane_trips.push_back(count);
      if (count < 0) extent_along(op, size);
    });
  }

  /// The extent of an array that the loop's variable runs along with step 1.
  void extent_along(const Op& loop, NestSize& size) {
    const Value* i = loop.blocks[0]->args[0];
    ir::walk(*loop.blocks[0], [&](const Op& op) {
      if (size.lane_extent >= 0 || !op.access || !of_[op.view()->id] || op.view()->type.rank != 1) return;
      for (size_t k = op.first_term(); k < op.operands.size(); ++k) {
        if (op.operands[k] == i && op.access->coef[0][k - op.first_term()] == 1) {
          size.lane_extent = word(builder_.dim(of_[op.view()->id], 0));
          return;
        }
      }
    });
  }

  const ir::Graph& from_;
  std::unique_ptr<ir::Graph> to_;
  ir::Builder builder_;
  std::vector<Value*> of_;  // by id: the host's value, or null
  std::vector<Value*> results_;
};

}  // namespace

HostPart host_part_of(const ir::Graph& graph) { return Splitter(graph).run(); }

}  // namespace appy::gpu
