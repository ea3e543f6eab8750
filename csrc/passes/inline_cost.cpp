#include "passes/inline_cost.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "passes/loops.h"
#include "passes/subscripts.h"

namespace appy::passes {

using ir::Block;
using ir::Effect;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

using Key = std::vector<int64_t>;

/// Numbers the distinct values of one block. Values from outside are themselves.
class Numbering {
 public:
  Numbering(const Recipe& recipe, bool in_place) : recipe_(recipe), in_place_(in_place) {}

  size_t count(const Block& block) {
    visit(block);
    return numbers_.size();
  }

  /// The nest that fills the array, by itself.
  size_t count_producer() {
    Frame frame;
    frame.of_recipe = true;
    number(*recipe_.stored, frame);
    return numbers_.size() + 1;
  }

 private:
  /// Where values are looked up: the reading block itself, or the recipe for one element.
  struct Frame {
    bool of_recipe = false;
    std::vector<Affine> at;  // of the element; empty for the nest's own iteration
    std::unordered_map<const Value*, int64_t> known;
  };

  void visit(const Block& block) {
    for (const Op* op = block.first; op; op = op->next) {
      const Effect effect = ir::info(op->code).effect;
      for (const Block* inner : op->blocks) visit(*inner);
      if (effect == Effect::pure || effect == Effect::load) {
        inside_.emplace(op->result(), op);
        continue;
      }
      const size_t end = op->access ? op->first_term() : op->operands.size();
      for (size_t k = 0; k < end; ++k) {
        if (!op->operands[k]->type.is_view()) number(*op->operands[k], block_);
      }
      if (effect == Effect::store) fresh({-1, static_cast<int64_t>(stores_++)});
    }
  }

  const Op* definition(const Value& v, const Frame& frame) const {
    if (!frame.of_recipe) {
      const auto found = inside_.find(&v);
      return found == inside_.end() ? nullptr : found->second;
    }
    const auto& all = recipe_.expression;
    return v.op && std::find(all.begin(), all.end(), v.op) != all.end() ? v.op : nullptr;
  }

  /// Below 0 for values from outside.
  int64_t number(const Value& v, Frame& frame) {
    if (const auto found = frame.known.find(&v); found != frame.known.end()) return found->second;
    return frame.known[&v] = compute(v, frame);
  }

  int64_t compute(const Value& v, Frame& frame) {
    if (dimension(v, frame)) return leaf(affine(v, frame));
    const Op* op = definition(v, frame);
    if (!op || op->code == Opcode::const_) return leaf_of(v);
    Key key = {static_cast<int64_t>(op->code), static_cast<int64_t>(op->result()->type.dtype), op->dim};
    if (op->code == Opcode::load_) {
      if (op->view() == recipe_.array && in_place_ && !frame.of_recipe) return element(*op, frame);
      key.push_back(op->view()->id);
      opaque_ = false;
      for (size_t d = 0; d < op->access->offset.size(); ++d) append(key, subscript(*op, d, frame));
      if (opaque_) key.push_back(static_cast<int64_t>(numbers_.size()));  // a gather: taken for another element
      return fresh(std::move(key));
    }
    const size_t first = key.size();
    for (const Value* operand : op->operands) key.push_back(number(*operand, frame));
    if ((op->code == Opcode::add_ || op->code == Opcode::mul_) && key[first] > key[first + 1])
      std::swap(key[first], key[first + 1]);
    return fresh(std::move(key));
  }

  int64_t element(const Op& load, Frame& frame) {
    Frame inner;
    inner.of_recipe = true;
    for (size_t d = 0; d < load.access->offset.size(); ++d) inner.at.push_back(subscript(load, d, frame));
    return number(*recipe_.stored, inner);
  }

  /// The dimension that the value counts in the recipe, where it is computed for an element of a block.
  std::optional<size_t> dimension(const Value& v, const Frame& frame) const {
    if (!frame.of_recipe || frame.at.empty()) return std::nullopt;
    const auto found = std::find(recipe_.index.begin(), recipe_.index.end(), &v);
    if (found == recipe_.index.end()) return std::nullopt;
    return static_cast<size_t>(found - recipe_.index.begin());
  }

  Affine subscript(const Op& access, size_t d, Frame& frame) {
    Affine sum;
    const Affine plain = row(access, d);
    sum.constant = plain.constant;
    for (const auto& [term, coef] : plain.terms) sum.add(affine(*term, frame), coef);
    return sum;
  }

  Affine affine(const Value& v, Frame& frame) {
    if (const auto d = dimension(v, frame)) return frame.at[*d];
    Affine sum;
    if (const auto known = constant(v); known && v.type.dtype == ir::DType::i64_) {
      sum.constant = *known;
      return sum;
    }
    const Op* op = v.type.dtype == ir::DType::i64_ ? definition(v, frame) : nullptr;
    if (op && (op->code == Opcode::add_ || op->code == Opcode::sub_)) {
      sum = affine(*op->operands[0], frame);
      sum.add(affine(*op->operands[1], frame), op->code == Opcode::add_ ? 1 : -1);
    } else {
      opaque_ |= op != nullptr;
      sum.add(v, 1);
    }
    return sum;
  }

  static void append(Key& key, const Affine& sum) {
    key.push_back(static_cast<int64_t>(sum.constant));
    key.push_back(static_cast<int64_t>(sum.terms.size()));
    for (const auto& [term, coef] : sum.terms) {
      key.push_back(term->id);
      key.push_back(static_cast<int64_t>(coef));
    }
  }

  int64_t fresh(Key key) {
    return numbers_.emplace(std::move(key), static_cast<int64_t>(numbers_.size())).first->second;
  }

  int64_t leaf(const Affine& sum) {
    Key key = {0};
    append(key, sum);
    return -1 - leaves_.emplace(std::move(key), static_cast<int64_t>(leaves_.size())).first->second;
  }

  /// Constants are equal where their words are.
  int64_t leaf_of(const Value& v) {
    Key key;
    if (const Op* word = constant_op(v)) {
      key = {1, static_cast<int64_t>(v.type.dtype), static_cast<int64_t>(word->imm)};
    } else {
      key = {2, static_cast<int64_t>(v.id)};
    }
    return -1 - leaves_.emplace(std::move(key), static_cast<int64_t>(leaves_.size())).first->second;
  }

  const Recipe& recipe_;
  const bool in_place_;
  Frame block_;
  std::unordered_map<const Value*, const Op*> inside_;
  std::map<Key, int64_t> numbers_;  // what is computed or loaded
  std::map<Key, int64_t> leaves_;   // what comes from outside
  size_t stores_ = 0;
  bool opaque_ = false;  // the subscript at hand holds a value that is computed in the frame
};

}  // namespace

Work work_of(const Recipe& recipe, const std::vector<const Block*>& readers) {
  Work work;
  work.producer = Numbering(recipe, false).count_producer();
  for (const Block* block : readers) {
    work.consumer += Numbering(recipe, false).count(*block);
    work.fused += Numbering(recipe, true).count(*block);
  }
  return work;
}

}  // namespace appy::passes
