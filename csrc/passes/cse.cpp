// Common subexpressions, scoped by dominance: pure ops, loads of an element that no store may have changed in between,
// and loads of what was just stored.
#include <unordered_map>

#include "passes/loops.h"

namespace appy::passes {

namespace {

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

bool is_commutative(Opcode code) {
  switch (code) {
    case Opcode::add_:
    case Opcode::mul_:
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
    case Opcode::eq_:
    case Opcode::ne_:
    case Opcode::ovf_add_:
    case Opcode::ovf_mul_:
      return true;
    default:
      return false;
  }
}

/// What an op computes, as words: two ops with equal keys have equal results.
using Key = std::vector<uint64_t>;

struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = 0x9e3779b97f4a7c15;
    for (uint64_t w : key) h = (h ^ w) * 0xff51afd7ed558ccd, h ^= h >> 32;
    return h;
  }
};

class CommonSubexpressions {
 public:
  explicit CommonSubexpressions(ir::Graph& graph)
      : graph_(graph), version_(graph.value_count()), to_(graph.value_count()) {
    note_written(*graph.body);
  }

  bool run() {
    block(*graph_.body);
    return changed_;
  }

 private:
  using Written = std::vector<const Value*>;

  /// The views written in a block and below it, for each block.
  const Written& note_written(const Block& b) {
    Written written;
    for (const Op* op = b.first; op; op = op->next) {
      if (is_write(*op)) add(written, op->view());
      for (const Block* inner : op->blocks) {
        for (const Value* view : note_written(*inner)) add(written, view);
      }
    }
    return written_[&b] = std::move(written);
  }

  static void add(Written& written, const Value* view) {
    for (const Value* known : written) {
      if (known == view) return;
    }
    written.push_back(view);
  }

  static bool is_write(const Op& op) {
    const Effect effect = ir::info(op.code).effect;
    return effect == Effect::store || effect == Effect::atomic;
  }

  /// Nothing loaded before is known of the view any more.
  void invalidate(const Value* view) {
    ++clock_;
    if (graph_.may_alias && !ir::alloc_of(*view)) {
      all_ = clock_;
    } else {
      version_[view->id] = clock_;
    }
  }

  void invalidate_written(const Op& op) {
    for (const Block* inner : op.blocks) {
      for (const Value* view : written_[inner]) invalidate(view);
    }
  }

  Key pure_key(const Op& op) const {
    Key key{static_cast<uint64_t>(op.code) | static_cast<uint64_t>(op.result()->type.dtype) << 8 |
                static_cast<uint64_t>(static_cast<uint32_t>(op.dim)) << 32,
            op.imm};
    for (const Value* operand : op.operands) key.push_back(operand->id);
    if (is_commutative(op.code) && key[2] > key[3]) std::swap(key[2], key[3]);
    return key;
  }

  Key access_key(const Op& op) const {
    const Value* view = op.view();
    const ir::Access& a = *op.access;
    const uint64_t version = ir::alloc_of(*view) ? version_[view->id] : std::max(version_[view->id], all_);
    Key key{static_cast<uint64_t>(Opcode::load_), view->id, version};
    for (size_t t = op.first_term(); t < op.operands.size(); ++t) key.push_back(op.operands[t]->id);
    for (size_t d = 0; d < a.offset.size(); ++d) {
      key.push_back(static_cast<uint64_t>(a.offset[d]));
      for (int64_t c : a.coef[d]) key.push_back(static_cast<uint64_t>(c));
    }
    return key;
  }

  void define(Key key, Value* value) {
    if (available_.emplace(key, value).second) scope_.push_back(std::move(key));
  }

  void block(Block& b) {
    const size_t outer = scope_.size();
    for (Op *op = b.first, *next; op; op = next) {
      next = op->next;
      for (Value*& operand : op->operands) {
        if (operand->id < to_.size() && to_[operand->id]) operand = to_[operand->id];
      }
      visit(*op);
    }
    while (scope_.size() > outer) {
      available_.erase(scope_.back());
      scope_.pop_back();
    }
  }

  void visit(Op& op) {
    const Effect effect = ir::info(op.code).effect;
    if (effect == Effect::pure || effect == Effect::load) {
      Key key = effect == Effect::pure ? pure_key(op) : access_key(op);
      if (auto known = available_.find(key); known != available_.end()) {
        to_[op.result()->id] = known->second;
        op.parent->remove(&op);
        changed_ = true;
      } else {
        define(std::move(key), op.result());
      }
    } else if (is_write(op)) {
      invalidate(op.view());
      if (effect == Effect::store) define(access_key(op), op.operands[0]);
    } else if (!op.blocks.empty()) {
      if (is_loop(op)) invalidate_written(op);  // an earlier iteration may have stored
      for (Block* inner : op.blocks) block(*inner);
      invalidate_written(op);
    }
  }

  ir::Graph& graph_;
  std::unordered_map<const Block*, Written> written_;
  std::unordered_map<Key, Value*, KeyHash> available_;
  std::vector<Key> scope_;
  std::vector<uint64_t> version_;  // by the view's id: the store that last wrote it
  uint64_t all_ = 0;               // the store that last wrote any parameter, under may_alias
  uint64_t clock_ = 0;
  std::vector<Value*> to_;
  bool changed_ = false;
};

}  // namespace

bool cse(ir::Graph& graph) { return CommonSubexpressions(graph).run(); }

}  // namespace appy::passes
