#include "trace/tensor_call.h"

#include <algorithm>

#include "ir/builder.h"
#include "trace/arithmetic.h"
#include "trace/conversion.h"

namespace appy::trace {
namespace {

using ir::Value;

bool is_none(const Traced& t) { return t.kind == Kind::object && t.object.get() == Py_None; }

}  // namespace

Call::Call(Context& c, const char* name, std::string_view parameters, Args args, Named named) : c_(c), name_(name) {
  for (size_t at = 0; at < parameters.size();) {
    const size_t end = std::min(parameters.find(' ', at), parameters.size());
    names_.emplace_back(parameters.substr(at, end - at));
    at = end + 1;
  }
  values_.resize(names_.size());
  if (args.size() > names_.size()) refuse_arguments();
  std::copy(args.begin(), args.end(), values_.begin());
  for (const auto& [key, value] : named) {
    const auto at = std::find(names_.begin(), names_.end(), key);
    if (at == names_.end()) refuse_arguments();
    values_[static_cast<size_t>(at - names_.begin())] = value;
  }
}

void Call::refuse_arguments() const { refuse(c_, AbortId::call_, std::string(name_) + " with these arguments"); }

Traced Call::operator[](std::string_view name) const {
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) return {};
  const Traced& t = values_[static_cast<size_t>(at - names_.begin())];
  return is_none(t) ? Traced{} : t;
}

TensorRef Call::array(std::string_view name) const {
  const Traced t = (*this)[name];
  if (t.kind == Kind::array || t.kind == Kind::tensor) return as_tensor(c_, t);
  if (t.kind != Kind::tuple || t.items.empty()) refuse_arguments();
  std::optional<DType> dtype;
  for (const Traced& item : t.items) {
    if (!item.is_scalar() || item.tag) refuse_arguments();
    dtype = dtype ? promote(*dtype, item.value->type.dtype) : item.value->type.dtype;
  }
  Value* const count[] = {c_.builder().i64(static_cast<int64_t>(t.items.size()))};
  const TensorRef made = allocate(c_, *dtype, count);
  for (size_t k = 0; k < t.items.size(); k++) {
    Value* const at[] = {c_.builder().i64(static_cast<int64_t>(k))};
    c_.builder().store(cast_element(c_, t.items[k], *dtype), made->base.value, at);
  }
  return made;
}

bool Call::flag(std::string_view name) const { return integer(name, 0) != 0; }

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  const Traced t = (*this)[name];
  if (t.kind == Kind::unbound) return otherwise;
  const std::optional<int64_t> k = t.is_scalar() ? known_integer(t.value) : std::nullopt;
  if (!k) refuse_arguments();
  return *k;
}

std::optional<DType> Call::dtype(std::string_view name) const {
  const Traced t = (*this)[name];
  if (t.kind == Kind::unbound) return {};
  if (t.kind != Kind::object) refuse_arguments();
  std::optional<DType> found = dtype_named(t.object.get());
  if (!found) refuse(c_, AbortId::array_dtype_, std::string("made by ") + name_);
  return found;
}

Axes Call::axes(int rank, std::string_view name) const {
  Axes out;
  const Traced t = (*this)[name];
  out.reduced.assign(static_cast<size_t>(rank), t.kind == Kind::unbound);
  if (t.kind == Kind::unbound) return out;
  const std::span<const Traced> items = t.kind == Kind::tuple ? std::span(t.items) : std::span(&t, 1);
  for (const Traced& item : items) {
    const std::optional<int64_t> k = item.is_scalar() ? known_integer(item.value) : std::nullopt;
    if (!k || *k < -rank || *k >= rank) refuse_arguments();
    auto reduced = out.reduced[static_cast<size_t>(*k < 0 ? *k + rank : *k)];
    if (reduced) refuse_arguments();
    reduced = true;
  }
  return out;
}

void Call::refuse_given(std::initializer_list<std::string_view> names) const {
  for (std::string_view name : names) {
    if (given(name)) refuse_arguments();
  }
}

}  // namespace appy::trace
