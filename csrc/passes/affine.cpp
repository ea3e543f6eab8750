#include "passes/affine.h"

#include <algorithm>

namespace appy::passes {

using ir::Opcode;

Wide Affine::coef(const ir::Value& v) const {
  auto at =
      std::lower_bound(terms.begin(), terms.end(), v.id, [](const auto& t, uint32_t id) { return t.first->id < id; });
  return at != terms.end() && at->first == &v ? at->second : 0;
}

void Affine::add(const Affine& other, Wide factor) {
  constant += factor * other.constant;
  for (const auto& [atom, k] : other.terms) add(*atom, factor * k);
}

void Affine::add(const ir::Value& atom, Wide factor) {
  if (factor == 0) return;
  auto at = std::lower_bound(terms.begin(), terms.end(), atom.id,
                             [](const auto& t, uint32_t id) { return t.first->id < id; });
  if (at == terms.end() || at->first != &atom) {
    terms.insert(at, {&atom, factor});
  } else if ((at->second += factor) == 0) {
    terms.erase(at);
  }
}

const ir::Op* constant_op(const ir::Value& v) { return v.op && v.op->code == Opcode::const_ ? v.op : nullptr; }

bool is_constant(const ir::Value& v, int64_t& out) {
  const ir::Op* op = constant_op(v);
  if (!op || v.type.is_view() || ir::is_real(v.type.dtype)) return false;
  out = static_cast<int64_t>(op->imm);
  return true;
}

ir::Value* emit(ir::Builder& b, const Affine& sum) {
  return emit(b, sum, [](const ir::Value& atom) { return const_cast<ir::Value*>(&atom); });
}

}  // namespace appy::passes
