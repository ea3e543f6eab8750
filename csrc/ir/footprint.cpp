#include "ir/footprint.h"

#include <algorithm>

#include "ir/op_printer.h"

namespace appy::ir {

namespace {

bool is_variable(const Value& term, const std::vector<const Op*>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const Op* loop) { return loop->code == Opcode::for_ && loop->blocks[0]->args[0] == &term; });
}

bool is_affine(const Op& op, const std::vector<const Op*>& loops) {
  if (loops.empty()) return true;
  const Block& outermost = *loops.front()->blocks[0];
  return std::all_of(op.terms().begin(), op.terms().end(),
                     [&](const Value* term) { return is_variable(*term, loops) || defined_outside(*term, outermost); });
}

class Collector {
 public:
  explicit Collector(const Graph& graph) : index_(graph.value_count(), -1) {
    for (const Value* param : graph.body->args) {
      if (!param->type.is_view()) continue;
      index_[param->id] = static_cast<int>(found_.size());
      found_.emplace_back().view = param;
    }
    block(*graph.body);
  }

  std::vector<ArrayFootprint> take() { return std::move(found_); }

 private:
  void block(const Block& block) {
    for (const Op* op = block.first; op; op = op->next) {
      if (op->access) access(*op);
      const bool loop = op->code == Opcode::for_ || op->code == Opcode::while_;
      if (loop) loops_.push_back(op);
      for (const Block* inner : op->blocks) this->block(*inner);
      if (loop) loops_.pop_back();
    }
  }

  void access(const Op& op) {
    if (index_[op.view()->id] < 0) return;  // the region's own array
    ArrayFootprint& array = found_[static_cast<size_t>(index_[op.view()->id])];
    const Effect effect = info(op.code).effect;
    FootprintAccess& made = array.accesses.emplace_back();
    made.op = &op;
    made.writes = effect != Effect::load;
    made.affine = is_affine(op, loops_);
    made.loops = loops_;
    array.written = array.written || made.writes;
    array.read = array.read || effect != Effect::store;
  }

  std::vector<int> index_;
  std::vector<ArrayFootprint> found_;
  std::vector<const Op*> loops_;
};

}  // namespace

bool writes_to_parameter(const Op& op) {
  const Effect effect = info(op.code).effect;
  if (effect == Effect::store || effect == Effect::atomic) return !alloc_of(*op.view());
  return std::any_of(op.blocks.begin(), op.blocks.end(), [](const Block* block) {
    for (const Op* inner = block->first; inner; inner = inner->next) {
      if (writes_to_parameter(*inner)) return true;
    }
    return false;
  });
}

bool nothing_written_before(const Op& op) {
  for (const Op* at = &op; at; at = at->parent->owner) {
    for (const Op* before = at->prev; before; before = before->prev) {
      if (writes_to_parameter(*before)) return false;
    }
    const Op* owner = at->parent->owner;
    const bool loop = owner && (owner->code == Opcode::for_ || owner->code == Opcode::while_);
    if (loop && writes_to_parameter(*owner)) return false;
  }
  return true;
}

std::vector<ArrayFootprint> footprint(const Graph& graph) { return Collector(graph).take(); }

std::string print(const Graph& graph, const std::vector<ArrayFootprint>& arrays) {
  const OpPrinter printer(graph);
  std::string text;
  for (const ArrayFootprint& array : arrays) {
    text += printer.name(*array.view) + ":";
    if (array.read) text += " read";
    if (array.written) text += " written";
    if (array.accesses.empty()) text += " unused";
    text += "\n";
    for (const FootprintAccess& access : array.accesses) {
      text += "  " + std::string(info(access.op->code).name) + " " +
              (access.affine ? printer.subscripts(*access.op) : std::string("unknown"));
      for (const Op* loop : access.loops) {
        text += loop->code == Opcode::for_ ? " for " + printer.name(*loop->blocks[0]->args[0]) : std::string(" while");
      }
      text += "\n";
    }
  }
  return text;
}

}  // namespace appy::ir
