// Addresses of loads and stores. An access is an affine form over its terms; the part that is known before a loop is
// computed in front of it, the iteration variable becomes an index of the addressing mode or a running pointer.
#include <algorithm>

#include "cpu/divergence.h"
#include "cpu/function.h"
#include "support/check.h"

namespace appy::cpu {

namespace {

int unit_dim(const ir::Type& view) {
  if (view.rank == 0) return -1;
  if (view.layout == ir::Layout::inner || view.layout == ir::Layout::c || view.layout == ir::Layout::pairs) {
    return view.rank - 1;
  }
  return view.layout == ir::Layout::f ? 0 : -1;
}

/// Does the last dimension of the contiguous array have two elements?
bool holds_pairs(const ir::Value& view) {
  if (view.type.layout == ir::Layout::pairs) return true;
  const ir::Op* alloc = ir::alloc_of(view);
  if (!alloc || alloc->operands.empty() || view.type.layout != ir::Layout::c) return false;
  const ir::Op* last = alloc->operands.back()->op;
  return last && last->code == ir::Opcode::const_ && last->imm == 2;
}

void add(Stride& to, const ir::Value& array, int dim, int64_t coef) {
  const ir::Type& view = array.type;
  if (coef == 0) return;
  if (dim == view.rank - 2 && holds_pairs(array)) {
    to.known += 2 * coef * ir::size_of(view.dtype);
    return;
  }
  if (dim == unit_dim(view)) {
    to.known += coef * ir::size_of(view.dtype);
    return;
  }
  auto at = std::find_if(to.dims.begin(), to.dims.end(), [&](auto& d) { return d.first == dim; });
  if (at == to.dims.end()) {
    to.dims.push_back({dim, coef});
  } else if ((at->second += coef) == 0) {
    to.dims.erase(at);
  }
}

bool is_scale(const Stride& s) {
  return s.constant() && (s.known == 1 || s.known == 2 || s.known == 4 || s.known == 8);
}
uint32_t shift_of(int64_t scale) { return scale == 8 ? 3 : scale == 4 ? 2 : scale == 2 ? 1 : 0; }
bool fits(int64_t v) { return v == static_cast<int32_t>(v); }

void append(AddressKey& key, const Stride& s) {
  key.push_back(s.known);
  key.push_back(static_cast<int64_t>(s.dims.size()));
  for (auto [dim, coef] : s.dims) {
    key.push_back(dim);
    key.push_back(coef);
  }
}

}  // namespace

Form address_form(const ir::Op& op) {
  Form form;
  form.view = op.view();
  const ir::Type& type = form.view->type;
  const ir::Access& access = *op.access;
  for (int d = 0; d < type.rank; ++d) add(form.offset, *form.view, d, access.offset[static_cast<size_t>(d)]);
  form.terms.reserve(static_cast<size_t>(access.terms));
  for (int k = 0; k < access.terms; ++k) {
    const ir::Value* term = op.operands[op.first_term() + static_cast<size_t>(k)];
    auto at = std::find_if(form.terms.begin(), form.terms.end(), [&](auto& t) { return t.first == term; });
    if (at == form.terms.end()) at = form.terms.insert(at, {term, {}});
    for (int d = 0; d < type.rank; ++d) {
      add(at->second, *form.view, d, access.coef[static_cast<size_t>(d)][static_cast<size_t>(k)]);
    }
    std::sort(at->second.dims.begin(), at->second.dims.end());
  }
  std::sort(form.offset.dims.begin(), form.offset.dims.end());
  std::erase_if(form.terms, [](auto& t) { return t.second.zero(); });
  for (auto& [term, stride] : form.terms) {
    if (term->op && term->op->code == ir::Opcode::const_ && stride.constant()) {
      form.offset.known += stride.known * static_cast<int64_t>(term->op->imm);
      stride = {};
    }
  }
  std::erase_if(form.terms, [](auto& t) { return t.second.zero(); });
  return form;
}

bool same_form(const Form& a, const Form& b) {
  const auto same = [](const Stride& x, const Stride& y) { return x.known == y.known && x.dims == y.dims; };
  if (a.view != b.view || a.terms.size() != b.terms.size() || a.offset.dims != b.offset.dims) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].first != b.terms[i].first || !same(a.terms[i].second, b.terms[i].second)) return false;
  }
  return true;
}

x86::Mem Function::view_word(const ir::Value* view, int word) {
  if (const auto own = own_words_.find(view->id); own != own_words_.end()) {
    x86::Mem at = own_;
    at.addOffset(8 * (own->second + word));
    at.setSize(8);
    return at;
  }
  return x86::qword_ptr(args_, 8 * (m_.param_word[view->id] + word));
}

x86::Gp Function::stride_reg(const ir::Value* view, const Stride& s) {
  AddressKey key = {view->id};
  append(key, s);
  auto [at, fresh] = strides_.try_emplace(std::move(key));
  if (!fresh) return at->second;
  x86::Gp sum = cc_.newGpq();
  at->second = sum;
  hoist(home(view), [&] {
    const int rank = view->type.rank;
    bool first = true;
    for (auto [dim, coef] : s.dims) {
      x86::Gp part = first ? sum : cc_.newGpq();
      if (coef == 1 || coef == -1 || !fits(coef)) {
        cc_.mov(part, view_word(view, 1 + rank + dim));
        if (coef == -1) cc_.neg(part);
        if (!fits(coef)) {
          x86::Gp c = cc_.newGpq();
          load_imm(c, coef);
          cc_.imul(part, c);
        }
      } else {
        cc_.imul(part, view_word(view, 1 + rank + dim), static_cast<int32_t>(coef));
      }
      if (!first) cc_.add(sum, part);
      first = false;
    }
    if (first) {
      load_imm(sum, s.known);
    } else if (s.known) {
      x86::Gp c = cc_.newGpq();
      load_imm(c, s.known);
      cc_.add(sum, c);
    }
  });
  return sum;
}

x86::Gp Function::add_term(x86::Gp base, const Form& form, const ir::Value* term, const Stride& s) {
  x86::Gp sum = cc_.newGpq();
  if (is_scale(s)) {
    cc_.lea(sum, x86::ptr(base, gp(term), shift_of(s.known)));
    return sum;
  }
  if (s.constant() && fits(s.known)) {
    cc_.imul(sum, gp(term), static_cast<int32_t>(s.known));
  } else {
    cc_.mov(sum, stride_reg(form.view, s));
    cc_.imul(sum, gp(term));
  }
  cc_.add(sum, base);
  return sum;
}

/// The same, or what an access before it in the block computed: `h[i, j] += 1` loads and stores at one place.
x86::Gp Function::with_term(x86::Gp base, const Form& form, const ir::Value* term, const Stride& s) {
  if (vector_) return add_term(base, form, term, s);  // its loops emit a body several times
  AddressKey key = {static_cast<int64_t>(base.id()), form.view->id, term->id};
  append(key, s);
  const auto [known, fresh] = sums_.try_emplace(std::move(key));
  if (fresh) known->second = add_term(base, form, term, s);
  return known->second;
}

x86::Gp Function::partial_address(const Form& form, size_t depth) {
  // Includes every term defined outside the loop at this depth; the known offset stays with the access.
  const size_t first = home(form.view);
  AddressKey key = {form.view->id};
  append(key, Stride{0, form.offset.dims});
  bool own_terms = false;
  for (const auto& [term, stride] : form.terms) {
    if (depth == 0 || depth_of(term) >= static_cast<int>(depth)) continue;
    key.push_back(term->id);
    append(key, stride);
    own_terms |= depth_of(term) == static_cast<int>(depth) - 1;
  }
  auto known = levels_[depth].pointers.find(key);
  if (known != levels_[depth].pointers.end()) return known->second;
  x86::Gp pointer;
  if (depth == first) {
    pointer = cc_.newGpq();
    hoist(first, [&] { cc_.mov(pointer, view_word(form.view, 0)); });
    if (!form.offset.dims.empty()) {
      x86::Gp offset = stride_reg(form.view, Stride{0, form.offset.dims});
      hoist(first, [&] { cc_.add(pointer, offset); });
    }
    for (const auto& [term, stride] : form.terms) {
      if (depth_of(term) >= static_cast<int>(first)) continue;
      if (!stride.constant()) stride_reg(form.view, stride);
      hoist(first, [&] { pointer = add_term(pointer, form, term, stride); });
    }
  } else if (!own_terms) {
    pointer = partial_address(form, depth - 1);
    const ir::Op* loop = levels_[depth].loop;
    if (depth > first + 1 && loop && loop->code == ir::Opcode::for_ && is_innermost(*loop)) {
      // asmjit gives a value one place for as long as it lives: one in memory would be loaded in each iteration.
      x86::Gp own = cc_.newGpq();
      hoist(depth, [&] { cc_.mov(own, pointer); });
      pointer = own;
    }
  } else {
    const Level& outer = levels_[depth - 1];
    const ir::Value* iv = outer.loop && outer.loop->code == ir::Opcode::for_ ? outer.loop->blocks[0]->args[0] : nullptr;
    auto iv_term = std::find_if(form.terms.begin(), form.terms.end(), [&](auto& t) { return t.first == iv; });
    const bool running = iv && iv_term != form.terms.end() && !is_scale(iv_term->second);
    pointer = running ? running_pointer(form, iv_term->second, depth - 1) : partial_address(form, depth - 1);
    hoist(depth, [&] {
      for (const auto& [term, stride] : form.terms) {
        if (depth_of(term) != static_cast<int>(depth) - 1 || (running && term == iv)) continue;
        pointer = add_term(pointer, form, term, stride);
      }
    });
  }
  levels_[depth].pointers.emplace(std::move(key), pointer);
  return pointer;
}

x86::Gp Function::running_pointer(const Form& form, const Stride& s, size_t depth) {
  Level& level = levels_[depth];
  x86::Gp start = partial_address(form, depth);
  AddressKey key = {-1, static_cast<int64_t>(start.id()), form.view->id};
  append(key, s);
  auto known = level.pointers.find(key);
  if (known != level.pointers.end()) return known->second;
  x86::Gp pointer = cc_.newGpq();
  Level::Advance advance{pointer, {}, 0};
  if (!s.constant() || !level.step_known) stride_reg(form.view, s);
  hoist(depth, [&] {
    if (s.constant() && fits(s.known)) {
      cc_.imul(pointer, level.iv, static_cast<int32_t>(s.known));
    } else {
      cc_.mov(pointer, stride_reg(form.view, s));
      cc_.imul(pointer, level.iv);
    }
    cc_.add(pointer, start);
    if (s.constant() && level.step_known && fits(s.known * level.step)) {
      advance.imm = s.known * level.step;
    } else {
      advance.by = step_of(form, s, level);
    }
  });
  level.advances.push_back(advance);
  level.pointers.emplace(std::move(key), pointer);
  return pointer;
}

/// What a pointer of this stride goes on by in an iteration: one register for all pointers of the loop.
x86::Gp Function::step_of(const Form& form, const Stride& s, Level& level) {
  AddressKey key = {-2, form.view->id};
  append(key, s);
  const auto [known, fresh] = level.pointers.try_emplace(std::move(key), cc_.newGpq());
  const x86::Gp by = known->second;
  if (!fresh) return by;
  cc_.mov(by, stride_reg(form.view, s));
  if (!level.step_known) {
    cc_.imul(by, level.step_reg);
  } else if (level.step != 1 && fits(level.step)) {
    cc_.imul(by, by, static_cast<int32_t>(level.step));
  } else if (level.step != 1) {
    x86::Gp step = cc_.newGpq();
    load_imm(step, level.step);
    cc_.imul(by, step);
  }
  return by;
}

x86::Mem Function::address(const Form& form) {
  const size_t here = depth();
  const Level& level = levels_[here];
  const ir::Value* iv = level.loop && level.loop->code == ir::Opcode::for_ ? level.loop->blocks[0]->args[0] : nullptr;
  for (const auto& [term, stride] : form.terms) reg(term);
  const ir::Value* index = nullptr;
  uint32_t shift = 0;
  x86::Gp base;
  const Stride* running = nullptr;
  for (const auto& [term, stride] : form.terms) {
    if (here == 0) continue;
    if (term == iv) {
      if (is_scale(stride)) {
        index = term;
        shift = shift_of(stride.known);
      } else {
        running = &stride;
      }
    }
  }
  base = running ? running_pointer(form, *running, here) : partial_address(form, here);
  for (const auto& [term, stride] : form.terms) {
    if (term == index || (running && term == iv)) continue;
    if (here > 0 && depth_of(term) < static_cast<int>(here)) continue;
    if (!index && is_scale(stride)) {
      index = term;
      shift = shift_of(stride.known);
    } else {
      base = with_term(base, form, term, stride);
    }
  }
  int64_t offset = form.offset.known;
  if (!fits(offset)) {
    x86::Gp far = cc_.newGpq();
    load_imm(far, offset);
    cc_.add(far, base);
    base = far;
    offset = 0;
  }
  const auto disp = static_cast<int32_t>(offset);
  return index ? x86::ptr(base, gp(index), shift, disp) : x86::ptr(base, disp);
}

}  // namespace appy::cpu
