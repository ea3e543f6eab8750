#include "trace/state.h"

#include <algorithm>

#include "runtime/scalar.h"
#include "support/abort.h"
#include "trace/tagged.h"
#include "trace/tensor.h"

namespace appy::trace {
namespace {

ir::DType dtype_of(const runtime::PyScalarType& type) { return runtime::graph_type(type); }

bool has_value(const Slot& s) { return s.kind == Slot::Kind::value && s.traced.kind != Kind::unbound; }

Merged conflict(std::string why) {
  Merged m;
  m.shape.kind = Slot::Kind::conflict;
  m.shape.why = std::move(why);
  return m;
}

bool is_constant(const Traced& t) { return t.kind == Kind::scalar && t.object; }

bool same_constant(const Traced& a, const Traced& b) {
  return is_constant(a) && is_constant(b) && a.object.get() == b.object.get() && !a.bound && !b.bound;
}

bool same_but_bound(Traced a, Traced b) {
  a.bound = b.bound = nullptr;
  return same(a, b);
}

/// The constant that a value of this type is, where the traced value has it: `present` is set.
PyObject* constant_of(const Traced& t, const runtime::PyScalarType& type, bool& present) {
  if (!t.tag) {
    present = t.type == type;
    return present && is_constant(t) ? t.object.get() : nullptr;
  }
  const auto i = static_cast<size_t>(std::find(t.types.begin(), t.types.end(), type) - t.types.begin());
  present = i < t.types.size();
  return i < t.constants.size() ? t.constants[i].get() : nullptr;
}

std::vector<Ref> common_constants(const Traced& a, const Traced& b, const std::vector<runtime::PyScalarType>& types) {
  std::vector<Ref> out(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    bool in_a = false, in_b = false;
    PyObject *x = constant_of(a, types[i], in_a), *y = constant_of(b, types[i], in_b);
    if (!in_a || !in_b || x == y) out[i] = Ref::borrow(in_a ? x : y);
  }
  return out;
}

bool same_constants(const Traced& a, const Traced& b) {
  return std::equal(a.constants.begin(), a.constants.end(), b.constants.begin(), b.constants.end(),
                    [](const Ref& x, const Ref& y) { return x.get() == y.get(); });
}

/// Is it the same that is known of the 0-d array that each would be to Python?
bool same_memory(const Traced& a, const Traced& b) {
  return a.element_of == b.element_of && a.outdated == b.outdated && a.shared == b.shared;
}

// Both are values of one kind; bound flags are the caller's.
Merged merge_values(const Traced& a, const Traced& b, bool carry) {
  Merged m;
  m.shape.kind = Slot::Kind::value;
  if (a.kind != b.kind) return conflict("its type depends on the path taken");
  if (!carry && (same(a, b) || same_constant(a, b))) {
    m.shape.traced = a;
    m.shape.traced.bound = nullptr;
    return m;
  }
  switch (a.kind) {
    case Kind::scalar:
      try {
        m.join = join(a, b);
      } catch (const Abort& abort) {
        return conflict(abort.message());
      }
      m.value = true;
      m.tag = !m.join.types.empty();
      m.shape.traced.kind = Kind::scalar;
      m.shape.traced.type = m.join.type;
      m.shape.traced.types = m.join.types;
      m.shape.traced.constants = common_constants(a, b, m.join.types);
      m.shape.traced.element_of = a.element_of == b.element_of || !b.element_of ? a.element_of
                                  : a.element_of                                ? &any_array
                                                                                : b.element_of;
      m.shape.traced.outdated = a.outdated || b.outdated;
      m.shape.traced.shared = a.shared || b.shared;
      return m;
    case Kind::tuple:
      if (a.items.size() != b.items.size()) return conflict("tuples of different lengths");
      m.shape.traced.kind = Kind::tuple;
      if (a.input == b.input) m.shape.traced.input = a.input;
      for (size_t i = 0; i < a.items.size(); ++i) {
        m.items.push_back(merge_values(a.items[i], b.items[i], carry && a.input < 0));
        if (m.items.back().shape.kind == Slot::Kind::conflict) return conflict(m.items.back().shape.why);
      }
      return m;
    case Kind::tensor: {
      m.shape.traced = a;
      m.shape.traced.bound = nullptr;
      if (!carry && same_but_bound(a, b)) return m;
      if (!same_kind_of_view(a, b)) return conflict("it is bound to different arrays on different paths");
      const std::vector<Traced> x = view_words(a), y = view_words(b);
      for (size_t i = 0; i < x.size(); ++i) {
        // An extent that is known, 1 above all, stays so.
        const bool varies = !same_constant(x[i], y[i]) && (carry || !same(x[i], y[i]));
        const bool extent = i >= a.tensor->axes.size();
        if (varies && extent && (known_integer(x[i].value) == 1 || known_integer(y[i].value) == 1)) {
          return conflict("it is bound to different arrays on different paths");
        }
        m.items.push_back(merge_values(x[i], y[i], varies));
        if (m.items.back().shape.kind == Slot::Kind::conflict) return conflict(m.items.back().shape.why);
      }
      return m;
    }
    case Kind::complex:
      // Numbers; arrays are what they are, as below.
      if (a.items.size() == 2 && b.items.size() == 2 && a.items[0].is_scalar() && b.items[0].is_scalar()) {
        m.shape.traced.kind = Kind::complex;
        for (size_t i = 0; i < 2; ++i) {
          m.items.push_back(merge_values(a.items[i], b.items[i], true));
          if (m.items.back().shape.kind == Slot::Kind::conflict) return conflict(m.items.back().shape.why);
        }
        return m;
      }
      break;
    case Kind::range:
      m.shape.traced.kind = Kind::range;
      for (size_t i = 0; i < a.items.size(); ++i) m.items.push_back(merge_values(a.items[i], b.items[i], carry));
      return m;
    default:
      break;
  }
  if (!same_but_bound(a, b)) {
    const bool arrays = a.kind == Kind::array || a.kind == Kind::tensor || a.kind == Kind::complex;
    return conflict(arrays ? "it is bound to different arrays on different paths"
                           : "it is bound to different objects on different paths");
  }
  m.shape.traced = a;
  m.shape.traced.bound = nullptr;
  return m;
}

}  // namespace

std::vector<Traced> view_words(const Traced& t) {
  if (!t.items.empty()) return t.items;
  std::vector<Traced> words;
  const auto add = [&](ir::Value* v) {
    words.push_back(py_int(v));
    // What both paths know needs no word.
    if (const std::optional<int64_t> k = known_integer(v)) words.back().object = Ref::steal(PyLong_FromLongLong(*k));
  };
  for (const Axis& axis : t.tensor->axes) add(axis.start);
  for (ir::Value* extent : t.tensor->shape) add(extent);
  return words;
}

bool same_kind_of_view(const Traced& a, const Traced& b) {
  const Tensor &x = *a.tensor, &y = *b.tensor;
  if (!x.is_view() || !y.is_view() || !same(x.base, y.base) || x.rank() != y.rank()) return false;
  if (x.base.writeable != y.base.writeable) return false;
  return std::equal(x.axes.begin(), x.axes.end(), y.axes.begin(), y.axes.end(),
                    [](const Axis& k, const Axis& l) { return k.dim == l.dim && k.step == l.step; });
}

bool same(const Traced& a, const Traced& b) {
  if (a.kind != b.kind || a.value != b.value || a.tag != b.tag || a.bound != b.bound) return false;
  if ((a.kind == Kind::array || a.kind == Kind::complex) && a.input != b.input) return false;
  if (a.tensor != b.tensor) return false;
  if (a.object.get() != b.object.get() || a.name != b.name || a.items.size() != b.items.size()) return false;
  if (a.kind == Kind::scalar && !(a.type == b.type && same_memory(a, b))) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  return true;
}

bool same(const Slot& a, const Slot& b) {
  if (a.kind != b.kind || a.maybe_entry != b.maybe_entry) return false;
  if (a.kind == Slot::Kind::update && a.op != b.op) return false;
  return a.kind == Slot::Kind::entry || a.kind == Slot::Kind::absent || a.kind == Slot::Kind::conflict ||
         same(a.traced, b.traced);
}

Merged merge(const Slot& a, const Slot& b, bool carry) {
  using K = Slot::Kind;
  if (a.kind == K::conflict) return conflict(a.why);
  if (b.kind == K::conflict) return conflict(b.why);
  if (a.kind == K::absent && b.kind == K::absent) return {};
  if (a.kind == K::absent) return merge(b, b, true);
  if (b.kind == K::absent) return merge(a, a, true);
  if (a.kind == K::element || a.kind == K::update || b.kind == K::element || b.kind == K::update) {
    if (!same(a, b)) return conflict("an atomic update depends on the path taken");
    Merged m;
    m.shape = a;
    return m;
  }
  const bool open = a.kind == K::entry || b.kind == K::entry || a.maybe_entry || b.maybe_entry;
  if (has_value(a) && has_value(b)) {
    Merged m = merge_values(a.traced, b.traced, carry);
    if (m.shape.kind == K::conflict) return m;
    if (!carry && same(a, b)) {
      m.shape = a;
    } else {
      m.bound = a.traced.bound || b.traced.bound;
    }
    const bool unbinds = (a.traced.bound && !a.maybe_entry) || (b.traced.bound && !b.maybe_entry);
    m.needs_entry = open && unbinds;
    m.shape.maybe_entry = open;
    return m;
  }
  const bool deletes = (a.kind == K::value && !a.maybe_entry && !has_value(a)) ||
                       (b.kind == K::value && !b.maybe_entry && !has_value(b));
  if (!has_value(a) && !has_value(b)) {
    Merged m;
    m.shape = a;
    m.needs_entry = a.kind != b.kind;
    return m;
  }
  const Slot& some = has_value(a) ? a : b;
  Merged m = merge_values(some.traced, some.traced, true);
  if (m.shape.kind == K::conflict) return m;
  m.bound = true;
  m.shape.maybe_entry = open;
  m.needs_entry = open && (deletes || (some.traced.bound && !some.maybe_entry));
  return m;
}

bool same_shape(const Merged& a, const Merged& b) {
  const Traced &s = a.shape.traced, &t = b.shape.traced;
  if (a.shape.kind != b.shape.kind || a.shape.maybe_entry != b.shape.maybe_entry) return false;
  if (a.value != b.value || a.tag != b.tag || a.bound != b.bound || a.items.size() != b.items.size()) return false;
  if (a.shape.kind != Slot::Kind::value) return true;
  if (s.kind != t.kind || !same_constants(s, t) || !same_memory(s, t)) return false;
  if (s.kind == Kind::tensor && !a.items.empty() && !same_kind_of_view(s, t)) return false;
  if (a.value ? !(a.join.type == b.join.type && a.join.types == b.join.types)
              : (a.items.empty() && !same_constant(s, t) && !same(s, t))) {
    return false;
  }
  for (size_t i = 0; i < a.items.size(); ++i) {
    if (!same_shape(a.items[i], b.items[i])) return false;
  }
  return true;
}

Slot placeholder(const Merged& m) {
  static ir::Value none;
  Slot s = m.shape;
  if (m.value) s.traced.value = &none;
  if (m.tag) s.traced.tag = &none;
  if (m.bound) s.traced.bound = &none;
  if (!m.items.empty()) s.traced.items.clear();
  for (const Merged& item : m.items) s.traced.items.push_back(placeholder(item).traced);
  return s;
}

void append_types(const Merged& m, std::vector<ir::Type>& types) {
  if (m.value) types.push_back(ir::scalar(dtype_of(m.join.type)));
  if (m.tag) types.push_back(ir::scalar(tag_type(m.join.types.size())));
  if (m.bound) types.push_back(ir::scalar(ir::DType::bool_));
  for (const Merged& item : m.items) append_types(item, types);
}

void append_words(Context& context, const Merged& m, const Slot& from, std::vector<ir::Value*>& words) {
  ir::Builder& b = context.builder();
  const bool given = has_value(from);
  if (m.value) {
    ir::Value *value = nullptr, *tag = nullptr;
    if (given && from.traced.tag && from.traced.types == m.join.types && from.traced.type == m.join.type) {
      value = from.traced.value;
      tag = from.traced.tag;
    } else if (given && from.traced.kind == Kind::scalar) {
      std::tie(value, tag) = convert(context, from.traced, m.join);
    }
    words.push_back(value ? value : b.constant(dtype_of(m.join.type), 0));
    if (m.tag) words.push_back(tag ? tag : b.constant(tag_type(m.join.types.size()), 0));
  }
  if (m.bound) {
    words.push_back(given && from.traced.bound ? from.traced.bound : b.boolean(given));
  }
  const bool view = given && from.traced.kind == Kind::tensor && !m.items.empty();
  const std::vector<Traced> items = view ? view_words(from.traced) : from.traced.items;
  for (size_t i = 0; i < m.items.size(); ++i) {
    Slot item;
    if (given && i < items.size()) item = Slot::of(items[i]);
    append_words(context, m.items[i], item, words);
  }
}

Slot rebuild(Context& context, const Merged& m, std::span<ir::Value* const>& words) {
  const auto take = [&] {
    ir::Value* v = words.front();
    words = words.subspan(1);
    return v;
  };
  Slot s = m.shape;
  if (m.value) s.traced.value = take();
  if (m.tag) s.traced.tag = take();
  if (m.bound) s.traced.bound = take();
  if (!m.items.empty()) s.traced.items.clear();
  for (const Merged& item : m.items) s.traced.items.push_back(rebuild(context, item, words).traced);
  if (s.kind == Slot::Kind::value && s.traced.kind == Kind::tensor && !m.items.empty()) {
    Tensor view = *s.traced.tensor;
    auto item = s.traced.items.begin();
    for (Axis& axis : view.axes) axis.start = (item++)->value;
    for (ir::Value*& extent : view.shape) extent = (item++)->value;
    s.traced.tensor = make_view(std::move(view));
    s.traced.items.clear();
  }
  // A constant that both paths brought: its op may stand in one of them only.
  if (s.kind == Slot::Kind::value && !m.value && s.traced.kind == Kind::scalar && s.traced.object) {
    const int input = s.traced.input;
    ir::Value* bound = s.traced.bound;
    s.traced = constant(context, s.traced.object.get());
    s.traced.input = input;
    s.traced.bound = bound;
  }
  return s;
}

}  // namespace appy::trace
