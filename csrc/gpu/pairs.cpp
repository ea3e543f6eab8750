// Neighbours in memory that are loaded, or stored, one after the other, the parts of complex numbers above all: one
// access where they lie in an aligned piece of memory of their common size.
#include "gpu/expressions.h"
#include "gpu/writer.h"
#include "passes/affine.h"
#include "passes/subscripts.h"

namespace appy::gpu {

using ir::DType;
using ir::Layout;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

bool is_even(const passes::Affine& sum) {
  for (const auto& [value, coef] : sum.terms) {
    if (coef % 2 != 0) return false;
  }
  return sum.constant % 2 == 0;
}

/// The second access' element less the first one's, where they differ in the last subscript alone; 0 elsewhere.
int distance(const Op& first, const Op& second) {
  const size_t rank = first.access->offset.size();
  for (size_t d = 0; d < rank; ++d) {
    passes::Affine difference = passes::row(second, d);
    difference.add(passes::row(first, d), -1);
    const bool one = d + 1 == rank && (difference.constant == 1 || difference.constant == -1);
    if (!difference.is_constant() || (difference.constant != 0 && !one)) return 0;
    if (d + 1 == rank) return static_cast<int>(difference.constant);
  }
  return 0;
}

/// Is a row of elements a whole number of pairs?
bool has_even_rows(const Value& view) {
  if (view.type.rank == 1 || view.type.layout == Layout::pairs || view.type.layout == Layout::inner) return true;
  const Op* extent = view.op ? view.op->operands.back()->op : nullptr;
  return view.type.layout == Layout::c && extent && extent->code == Opcode::const_ && extent->imm % 2 == 0;
}

}  // namespace

const Op* Writer::neighbour(const Op& op) const {
  if ((op.code != Opcode::load_ && op.code != Opcode::store_) || copies_) return nullptr;
  const Op* other = op.next;
  while (other && other->code == Opcode::const_) other = other->next;
  const Value& view = *op.view();
  const DType t = view.type.dtype;
  if (!other || other->code != op.code || other->view() != &view || (t != DType::f32_ && t != DType::f64_))
    return nullptr;
  const Layout layout = view.type.layout;
  if (view.type.rank == 0 || layout == Layout::strided || layout == Layout::f) return nullptr;
  if (is_unaligned(view) || !has_even_rows(view)) return nullptr;
  const int step = distance(op, *other);
  if (step == 0 || !is_even(passes::row(step > 0 ? op : *other, op.access->offset.size() - 1))) return nullptr;
  const bool store = op.code == Opcode::store_;
  return store && (level_ != Level::thread || stays(op) || stays(*other)) ? nullptr : other;
}

std::string Writer::aligned(const Value& view) {
  std::string bits = "(u64)" + names_.of(view);
  for (int d = 0; view.type.layout == Layout::inner && d + 1 < view.type.rank; ++d) {
    bits += " | (u64)" + names_.of(view) + "_s" + std::to_string(d);
  }
  const std::string test = "((" + bits + ") & " + std::to_string(2 * ir::size_of(view.type.dtype) - 1) + ") == 0";
  if (view.op) return test;
  paired_.insert(test);
  return "aligned_pairs";
}

std::string Writer::pairs_parameter() const {
  std::string text;
  for (const std::string& test : paired_) text += (text.empty() ? "  const bool aligned_pairs = " : " && ") + test;
  return text.empty() ? text : text + ";\n";
}

void Writer::pair(const Op& first, const Op& second) {
  await_copies_before(first);
  note_line(first);
  const bool rises = distance(first, second) > 0;
  const Op &low = rises ? first : second, &high = rises ? second : first;
  const Value& view = *first.view();
  const auto both = [&](const std::string& a, const std::string& b) {
    return "_two(" + aligned(view) + ", &" + element(low) + ", " + a + ", " + b + ");";
  };
  if (first.code == Opcode::store_) {
    put("store" + both(argument(*low.operands[0]), argument(*high.operands[0])));
    return;
  }
  const std::string &a = names_.of(*low.result()), &b = names_.of(*high.result());
  put(std::string(type_of(view.type.dtype)) + " " + a + ", " + b + ";");
  put("load" + both(a, b));
}

}  // namespace appy::gpu
