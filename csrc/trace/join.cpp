#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

#include "ir/typing.h"
#include "runtime/scalar.h"
#include "trace/semantics.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::Value;

std::vector<PyScalarType> types_of(const Traced& t) { return t.tag ? t.types : std::vector<PyScalarType>{t.type}; }

/// Does the number convert to the type and back unchanged?
bool exact_in(DType from, ir::Word word, DType to) {
  if (from == DType::bool_) return true;
  const auto n = static_cast<int64_t>(word);
  if (!ir::is_real(to)) {
    const ir::Range bounds = bounds_of(to);
    return !ir::is_real(from) && n >= bounds.lo && n <= bounds.hi;
  }
  if (!ir::is_real(from) && (n > int64_t{1} << 53 || n < -(int64_t{1} << 53))) return false;
  const auto as = [](DType a, DType b, ir::Word w) { return runtime::convert_word(a, b, w); };
  const auto x = std::bit_cast<double>(as(from, DType::f64_, word));
  return x != x || std::bit_cast<double>(as(to, DType::f64_, as(DType::f64_, to, std::bit_cast<ir::Word>(x)))) == x;
}

bool chooses(Opcode code) {
  return code == Opcode::pymin_ || code == Opcode::pymax_ || code == Opcode::minimum_ || code == Opcode::maximum_;
}

/// A float operation that gives its first operand, but for the sign of a zero.
bool is_identity(const ir::Op& op) {
  if (op.operands.size() != 2 || op.operands[1]->type.dtype != DType::f64_) return false;
  const std::optional<ir::Word> right = known(op.operands[1]);
  const bool sum = op.code == Opcode::add_ || op.code == Opcode::sub_;
  return right && ((sum && *right == 0) || (op.code == Opcode::mul_ && *right == std::bit_cast<ir::Word>(1.0)));
}

constexpr int max_depth = 6;

constexpr double unbounded = std::numeric_limits<double>::infinity();

/// No value of the integer is larger in magnitude.
double magnitude(const Value* v, int depth = 0) {
  const DType type = v->type.dtype;
  if (ir::is_real(type)) return unbounded;
  if (type == DType::bool_) return 1;
  if (const std::optional<ir::Word> word = known(v)) return std::fabs(static_cast<double>(static_cast<int64_t>(*word)));
  if (type == DType::u64_) return unbounded;
  if (ir::size_of(type) < 8) return std::ldexp(1.0, 8 * ir::size_of(type));
  if (depth > max_depth) return unbounded;
  const auto of = [&](const Value* x) { return magnitude(x, depth + 1); };
  if (!v->op) {
    const ir::Op* owner = v->block ? v->block->owner : nullptr;
    if (!owner) return std::max(-static_cast<double>(v->range.lo), static_cast<double>(v->range.hi));
    if (owner->code != ir::Opcode::for_ || v->index != 0) return unbounded;
    return std::max(of(owner->operands[0]), of(owner->operands[1]));
  }
  const auto operand = [&](size_t i) { return of(v->op->operands[i]); };
  // Sums and products of such size do not wrap.
  const auto fits = [](double m) { return m < 0x1p62 ? m : unbounded; };
  switch (v->op->code) {
    case ir::Opcode::dim_:
      return 0x1p47;
    case ir::Opcode::cast_:
      return fits(operand(0));
    case ir::Opcode::add_:
    case ir::Opcode::sub_:
      return fits(operand(0) + operand(1));
    case ir::Opcode::mul_:
      return fits(operand(0) * operand(1));
    case ir::Opcode::neg_:
    case ir::Opcode::abs_:
      return fits(operand(0));
    case ir::Opcode::mod_:
      return operand(1);
    case ir::Opcode::select_:
      return std::max(operand(1), operand(2));
    case ir::Opcode::pymin_:
    case ir::Opcode::pymax_:
      return std::max(operand(0), operand(1));
    default:
      return unbounded;
  }
}

/// Is the value known to be a number of the dtype?
bool is_exact(const Value* v, DType to, int depth = 0) {
  const DType from = v->type.dtype;
  if (widens(from, to)) return true;
  if (const std::optional<ir::Word> word = known(v)) return exact_in(from, *word, to);
  if (const ir::Op* op = v->op; op && depth < max_depth) {
    const auto operand = [&](size_t i) { return is_exact(op->operands[i], to, depth + 1); };
    if (op->code == Opcode::cast_) return widens(op->operands[0]->type.dtype, from) && operand(0);
    if (op->code == Opcode::select_) return operand(1) && operand(2);
    if (chooses(op->code)) return operand(0) && operand(1);
    if (is_identity(*op)) return operand(0);
    return to == DType::f64_ && magnitude(v) <= 0x1p53;
  }
  if (to == DType::f64_ && magnitude(v) <= 0x1p53) return true;
  const bool parameter = !v->op && v->block && !v->block->owner;
  if (!parameter || from != DType::i64_ || (ir::is_real(to) && to != DType::f64_)) return false;
  const ir::Range bounds = bounds_of(ir::is_int(to) ? to : DType::i32_);
  return v->range.lo >= bounds.lo && v->range.hi <= bounds.hi;
}

/// An exact value in the dtype, computed there.
Value* narrowed(Emit& e, Value* v, DType to) {
  const DType from = v->type.dtype;
  if (from == to || widens(from, to) || known(v) || !v->op) return e.cast(v, to);
  const ir::Op& op = *v->op;
  const auto operand = [&](size_t i) { return narrowed(e, op.operands[i], to); };
  if (op.code == Opcode::cast_) return operand(0);
  if (op.code == Opcode::select_) return e.select(op.operands[0], operand(1), operand(2));
  if (chooses(op.code) || is_identity(op)) return e.op(op.code, {operand(0), operand(1)});
  return e.cast(v, to);
}

/// The dtype of all NumPy scalars among the types, if there is one and numbers of the other types may fit it; the
/// widest where all are unsigned.
std::optional<DType> common_dtype(const std::vector<PyScalarType>& types) {
  std::optional<DType> dtype;
  bool real = false;
  for (const PyScalarType& t : types) {
    real |= t.kind == ScalarKind::py_float;
    if (t.kind != ScalarKind::np_scalar) continue;
    if (t.dtype == DType::bool_) return {};
    const auto is_unsigned = [](DType d) { return ir::class_of(d) == ir::TypeClass::uint; };
    if (dtype && *dtype != t.dtype && !(is_unsigned(*dtype) && is_unsigned(t.dtype))) return {};
    if (!dtype || ir::size_of(t.dtype) > ir::size_of(*dtype)) dtype = t.dtype;
  }
  return real && dtype && !ir::is_real(*dtype) ? std::nullopt : dtype;
}

/// A type that holds the values of every alternative: a number, or, as np.uint64, the bits of each.
PyScalarType representation(const std::vector<PyScalarType>& types, const Traced& a, const Traced& b) {
  bool all_bool = true, real = false, is_signed = false, unsigned64 = false, numpy64 = false;
  for (const PyScalarType& t : types) {
    all_bool &= t.dtype == DType::bool_;
    real |= ir::is_real(t.dtype);
    is_signed |= ir::is_signed(t.dtype);
    unsigned64 |= t.dtype == DType::u64_;
    numpy64 |= t == PyScalarType{ScalarKind::np_scalar, DType::i64_};
  }
  if (all_bool) return {ScalarKind::py_bool, DType::bool_};
  const std::optional<DType> dtype = common_dtype(types);
  if (dtype && holds(*dtype, a) && holds(*dtype, b)) return {ScalarKind::np_scalar, *dtype};
  const bool in_float = real && holds(DType::f64_, a) && holds(DType::f64_, b);
  if (unsigned64 || (real && (numpy64 || !in_float))) return {ScalarKind::np_scalar, DType::u64_};
  if (real) return {ScalarKind::py_float, DType::f64_};
  return {ScalarKind::py_int, DType::i64_};
}

/// The unsigned integer of the float's size.
DType word_of(DType t) { return t == DType::f64_ ? DType::u64_ : t == DType::f32_ ? DType::u32_ : DType::u16_; }

Value* bits_of(Emit& e, Value* v) {
  if (!ir::is_real(v->type.dtype)) return e.cast(v, DType::u64_);
  if (const std::optional<ir::Word> known_bits = known(v)) return e.constant(DType::u64_, *known_bits);
  return e.cast(e.context().builder().bitcast(v, word_of(v->type.dtype)), DType::u64_);
}

Value* from_bits(Emit& e, Value* bits, DType t) {
  if (!ir::is_real(t)) return e.cast(bits, t);
  return e.context().builder().bitcast(e.cast(bits, word_of(t)), t);
}

Value* represent(Context& context, Value* v, DType from, DType to) {
  Emit e(context);
  if (to == DType::u64_) return bits_of(e, v);
  if (from == to || from == DType::bool_) return e.cast(v, to);
  if (is_exact(v, to)) return narrowed(e, v, to);
  if (to == DType::f64_ && ir::is_int(from) && ir::size_of(from) == 8) {
    Value* limit = e.integer(from, int64_t{1} << 53);
    Value* ok = e.le(v, limit);
    if (ir::is_signed(from)) ok = e.both(e.ge(v, e.i64(-(int64_t{1} << 53))), ok);
    e.check(ir::CheckKind::decline_, ok);
  }
  return e.cast(v, to);
}

}  // namespace

bool holds(DType dtype, const Traced& t) {
  if (widens(t.type.dtype, dtype) || (!t.is_np() && !t.tag && is_exact(t.value, dtype))) return true;
  return t.as_float && ir::is_real(dtype) && is_exact(t.as_float, dtype);
}

std::optional<DType> narrower(const Join& join) {
  const std::optional<DType> dtype = join.types.empty() ? std::nullopt : common_dtype(join.types);
  return dtype && join.type.dtype != *dtype ? dtype : std::nullopt;
}

Join join(const Traced& a, const Traced& b) {
  if (a.kind != Kind::scalar || b.kind != Kind::scalar) {
    throw Abort(AbortId::join_, describe(a) + " and " + describe(b));
  }
  std::vector<PyScalarType> types = types_of(a);
  for (const PyScalarType& t : types_of(b)) {
    if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
  }
  // One order whatever path is met first, so that tags of nested merges are the same flag and not its negation.
  std::sort(types.begin(), types.end(), [](const PyScalarType& x, const PyScalarType& y) {
    return std::pair(x.kind, x.dtype) < std::pair(y.kind, y.dtype);
  });
  if (types.size() == 1) return {types[0], {}};
  return {representation(types, a, b), types};
}

std::pair<Value*, Value*> convert(Context& context, const Traced& a, const Join& join) {
  if (join.types.empty()) return {a.value, nullptr};
  Emit e(context);
  auto position = [&](const PyScalarType& t) {
    const auto at = std::find(join.types.begin(), join.types.end(), t) - join.types.begin();
    return tag_of(e, join.types.size(), static_cast<size_t>(at));
  };
  if (!a.tag && a.as_float && ir::is_real(join.type.dtype)) {
    return {represent(context, a.as_float, a.as_float->type.dtype, join.type.dtype), position(a.type)};
  }
  if (!a.tag) return {represent(context, a.value, a.type.dtype, join.type.dtype), position(a.type)};
  Value* tag = position(a.types.back());
  for (size_t i = a.types.size() - 1; i-- > 0;) {
    tag = e.select(has_type(e, a, i), position(a.types[i]), tag);
  }
  if (join.type.dtype != DType::u64_ || a.type.dtype == DType::u64_) {
    return {represent(context, a.value, a.value->type.dtype, join.type.dtype), tag};
  }
  Value* bits = bits_of(e, alternative(context, a, a.types.size() - 1).value);
  for (size_t i = a.types.size() - 1; i-- > 0;) {
    bits = e.select(has_type(e, a, i), bits_of(e, alternative(context, a, i).value), bits);
  }
  return {bits, tag};
}

Traced alternative(Context& context, const Traced& t, size_t i) {
  if (i < t.constants.size() && t.constants[i]) return constant(context, t.constants[i].get());
  Emit e(context);
  const DType type = t.types[i].dtype;
  if (t.type.dtype == DType::u64_) return make(t.types[i], from_bits(e, t.value, type));
  Traced out = make(t.types[i], e.cast(t.value, type));
  if (ir::is_real(t.value->type.dtype) && !ir::is_real(t.types[i].dtype)) out.as_float = t.value;
  return out;
}

Traced merge(Context& context, std::span<Value* const> when, std::span<const Traced> results) {
  Emit e(context);
  if (results[0].kind == Kind::complex) {
    std::vector<Traced> re, im;
    for (const Traced& r : results) {
      if (r.kind != Kind::complex || r.items.size() != 2 || !r.items[0].is_scalar()) {
        refuse(context, AbortId::join_, "a complex number or something else");
      }
      re.push_back(r.items[0]);
      im.push_back(r.items[1]);
    }
    Traced out = results[0];
    out.items = {merge(context, when, re), merge(context, when, im)};
    return out;
  }
  if (results[0].kind == Kind::tuple) {
    std::vector<Traced> items;
    for (size_t k = 0; k < results[0].items.size(); k++) {
      std::vector<Traced> column;
      for (const Traced& r : results) column.push_back(r.items.at(k));
      items.push_back(merge(context, when, column));
    }
    return tuple_of(std::move(items));
  }
  if (results[0].kind == Kind::range) {
    Traced out = results[0];
    for (size_t k = 0; k < out.items.size(); k++) {
      std::vector<Traced> column;
      for (const Traced& r : results) column.push_back(r.items.at(k));
      const std::optional<int64_t> first = known_integer(column[0].value);
      const auto same = [&](const Traced& t) { return first && known_integer(t.value) == first; };
      if (!std::all_of(column.begin(), column.end(), same)) out.items[k] = merge(context, when, column);
    }
    return out;
  }
  const auto is_array = [](const Traced& r) { return r.kind == Kind::zero_d; };
  if (std::all_of(results.begin(), results.end(), is_array)) {
    std::vector<Traced> scalars;
    for (const Traced& r : results) scalars.push_back(make(r.type, r.value));
    Traced merged = merge(context, when, scalars);
    if (merged.tag) refuse(context, AbortId::join_, "a 0-d array of one dtype or another");
    merged.kind = Kind::zero_d;
    return merged;
  }
  Traced all = results[0];
  Join joined{all.type, all.tag ? all.types : std::vector<PyScalarType>{}};
  for (const Traced& r : results.subspan(1)) {
    joined = join(all, r);
    all.type = joined.type;
    all.types = joined.types;
    all.tag = joined.types.empty() ? nullptr : all.value;  // only says that there is a tag
  }
  Traced merged = make(joined.type, nullptr);
  for (size_t i = results.size(); i-- > 0;) {
    Guarded guarded(context, when[i]);
    const auto [value, tag] = convert(guarded, results[i], joined);
    merged.value = merged.value ? e.select(when[i], value, merged.value) : value;
    if (tag) merged.tag = merged.tag ? e.select(when[i], tag, merged.tag) : tag;
  }
  if (merged.tag) merged.types = joined.types;
  return merged;
}

}  // namespace appy::trace
