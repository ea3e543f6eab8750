// Common subexpressions, scoped by dominance: pure ops, loads of an element that no store may have changed in between,
// and loads of what was just stored.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <vector>

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

uint64_t hash_of(const Key& key) {
  uint64_t h = 0x9e3779b97f4a7c15;
  for (uint64_t w : key) h = (h ^ w) * 0xff51afd7ed558ccd, h ^= h >> 32;
  return h;
}

/// Values by keys. What was added last is removed first, so that keys and entries are stacks, and buckets chains of
/// entries from the last one on.
class Available {
 public:
  explicit Available(size_t most) : buckets_(std::bit_ceil(most + 1)) {}

  size_t size() const { return entries_.size(); }

  /// What has the key; where nothing has, the value gets it, and null is returned.
  Value* find_or_add(const Key& key, Value* value) {
    const uint64_t hash = hash_of(key);
    uint32_t& first = bucket(hash);
    for (uint32_t at = first; at != 0; at = entries_[at - 1].next) {
      const Entry& entry = entries_[at - 1];
      if (entry.hash == hash && std::equal(words_begin(at), words_begin(at + 1), key.begin(), key.end()))
        return entry.value;
    }
    entries_.push_back({hash, value, words_.size(), first});
    words_.insert(words_.end(), key.begin(), key.end());
    first = static_cast<uint32_t>(entries_.size());
    return nullptr;
  }

  void shrink(size_t size) {
    while (entries_.size() > size) {
      const Entry& last = entries_.back();
      bucket(last.hash) = last.next;
      words_.resize(last.begin);
      entries_.pop_back();
    }
  }

 private:
  struct Entry {
    uint64_t hash;
    Value* value;
    size_t begin;   // of its key in words_, which ends where the next one begins
    uint32_t next;  // of the same bucket, added before: 1 + its index, or 0
  };

  uint32_t& bucket(uint64_t hash) { return buckets_[hash & (buckets_.size() - 1)]; }
  std::vector<uint64_t>::const_iterator words_begin(uint32_t place) const {
    const size_t begin = place <= entries_.size() ? entries_[place - 1].begin : words_.size();
    return words_.begin() + static_cast<std::ptrdiff_t>(begin);
  }

  std::vector<uint32_t> buckets_;
  std::vector<Entry> entries_;
  std::vector<uint64_t> words_;
};

class CommonSubexpressions {
 public:
  explicit CommonSubexpressions(ir::Graph& graph)
      : graph_(graph), available_(graph.value_count()), version_(graph.value_count()), to_(graph.value_count()) {
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

  const Key& pure_key(const Op& op) {
    key_.assign({static_cast<uint64_t>(op.code) | static_cast<uint64_t>(op.result()->type.dtype) << 8 |
                     static_cast<uint64_t>(static_cast<uint32_t>(op.dim)) << 32,
                 op.imm});
    for (const Value* operand : op.operands) key_.push_back(operand->id);
    if (is_commutative(op.code) && key_[2] > key_[3]) std::swap(key_[2], key_[3]);
    return key_;
  }

  const Key& access_key(const Op& op) {
    const Value* view = op.view();
    const ir::Access& a = *op.access;
    const uint64_t version = ir::alloc_of(*view) ? version_[view->id] : std::max(version_[view->id], all_);
    key_.assign({static_cast<uint64_t>(Opcode::load_), view->id, version});
    for (size_t t = op.first_term(); t < op.operands.size(); ++t) key_.push_back(op.operands[t]->id);
    for (size_t d = 0; d < a.offset.size(); ++d) {
      key_.push_back(static_cast<uint64_t>(a.offset[d]));
      for (int64_t c : a.coef[d]) key_.push_back(static_cast<uint64_t>(c));
    }
    return key_;
  }

  void block(Block& b) {
    const size_t outer = available_.size();
    for (Op *op = b.first, *next; op; op = next) {
      next = op->next;
      for (Value*& operand : op->operands) {
        if (operand->id < to_.size() && to_[operand->id]) operand = to_[operand->id];
      }
      visit(*op);
    }
    available_.shrink(outer);
  }

  void visit(Op& op) {
    const Effect effect = ir::info(op.code).effect;
    if (effect == Effect::pure || effect == Effect::load) {
      const Key& key = effect == Effect::pure ? pure_key(op) : access_key(op);
      if (Value* known = available_.find_or_add(key, op.result())) {
        to_[op.result()->id] = known;
        op.parent->remove(&op);
        changed_ = true;
      }
    } else if (is_write(op)) {
      invalidate(op.view());
      if (effect == Effect::store) available_.find_or_add(access_key(op), op.operands[0]);
    } else if (!op.blocks.empty()) {
      if (is_loop(op)) invalidate_written(op);  // an earlier iteration may have stored
      for (Block* inner : op.blocks) block(*inner);
      invalidate_written(op);
    }
  }

  ir::Graph& graph_;
  std::unordered_map<const Block*, Written> written_;
  Available available_;
  Key key_;                        // of the op that is looked at
  std::vector<uint64_t> version_;  // by the view's id: the store that last wrote it
  uint64_t all_ = 0;               // the store that last wrote any parameter, under may_alias
  uint64_t clock_ = 0;
  std::vector<Value*> to_;
  bool changed_ = false;
};

}  // namespace

bool cse(ir::Graph& graph) { return CommonSubexpressions(graph).run(); }

}  // namespace appy::passes
