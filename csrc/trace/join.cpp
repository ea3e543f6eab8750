#include <algorithm>

#include "trace/semantics.h"
#include "trace/tagged.h"

namespace appy::trace {
namespace {

using ir::Value;

std::vector<PyScalarType> types_of(const Traced& t) { return t.tag ? t.types : std::vector<PyScalarType>{t.type}; }

/// A type that holds the values of every alternative; int64 into float64 is exact up to 2^53, which convert() checks.
PyScalarType representation(const std::vector<PyScalarType>& types) {
  bool all_bool = true, real = false, unsigned64 = false, is_signed = false;
  for (const PyScalarType& t : types) {
    all_bool &= t.dtype == DType::bool_;
    real |= ir::is_real(t.dtype);
    unsigned64 |= t.dtype == DType::u64_;
    is_signed |= ir::is_signed(t.dtype);
  }
  if (all_bool) return {ScalarKind::py_bool, DType::bool_};
  if (real) return {ScalarKind::py_float, DType::f64_};
  if (unsigned64 && !is_signed) return {ScalarKind::np_scalar, DType::u64_};
  return {ScalarKind::py_int, DType::i64_};
}

Value* represent(Context& context, Value* v, DType from, DType to) {
  Emit e(context);
  if (to == DType::f64_ && ir::is_int(from) && ir::size_of(from) == 8) {
    Value* limit = e.integer(from, int64_t{1} << 53);
    Value* ok = e.le(v, limit);
    if (ir::is_signed(from)) ok = e.both(e.ge(v, e.i64(-(int64_t{1} << 53))), ok);
    e.check(ir::CheckKind::decline_, ok);
  }
  if (to == DType::i64_ && from == DType::u64_) {
    e.check(ir::CheckKind::decline_, e.le(v, e.constant(from, static_cast<ir::Word>(INT64_MAX))));
  }
  return e.cast(v, to);
}

}  // namespace

Join join(const Traced& a, const Traced& b) {
  if (a.kind != Kind::scalar || b.kind != Kind::scalar) {
    throw Abort(AbortId::join_, describe(a) + " and " + describe(b));
  }
  std::vector<PyScalarType> types = types_of(a);
  for (const PyScalarType& t : types_of(b)) {
    if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
  }
  if (types.size() == 1) return {types[0], {}};
  return {representation(types), types};
}

std::pair<Value*, Value*> convert(Context& context, const Traced& a, const Join& join) {
  if (join.types.empty()) return {a.value, nullptr};
  Emit e(context);
  auto position = [&](const PyScalarType& t) {
    return e.i64(std::find(join.types.begin(), join.types.end(), t) - join.types.begin());
  };
  if (!a.tag) return {represent(context, a.value, a.type.dtype, join.type.dtype), position(a.type)};
  Value* tag = position(a.types.back());
  for (size_t i = a.types.size() - 1; i-- > 0;) {
    tag = e.select(e.eq(a.tag, e.i64(static_cast<int64_t>(i))), position(a.types[i]), tag);
  }
  return {represent(context, a.value, a.value->type.dtype, join.type.dtype), tag};
}

Traced alternative(Context& context, const Traced& t, size_t i) {
  Emit e(context);
  return make(t.types[i], e.cast(t.value, t.types[i].dtype));
}

Traced merge(Context& context, std::span<Value* const> when, std::span<const Traced> results) {
  Emit e(context);
  if (results[0].kind == Kind::tuple) {
    std::vector<Traced> items;
    for (size_t k = 0; k < results[0].items.size(); k++) {
      std::vector<Traced> column;
      for (const Traced& r : results) column.push_back(r.items.at(k));
      items.push_back(merge(context, when, column));
    }
    return tuple_of(std::move(items));
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
