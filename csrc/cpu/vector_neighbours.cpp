// Loads of neighbours along the lanes, a[j - 1], a[j] and a[j + 1]: instead of a vector for each, most of which lie in
// two cache lines, the vectors of a stretch of the row are loaded once, and what lies across two of them is shifted
// together in registers. In the region's own arrays, whose rows are whole lines, the stretch's vectors lie as those of
// the loop's store do, in one line each.
#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"
#include "ir/divisor.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

/// Different neighbours that a stretch has to serve.
constexpr size_t kFewest = 2;

int64_t floor_mod(int64_t a, int64_t b) { return (a % b + b) % b; }

/// Are rows of the array whole lines of the cache?
bool has_whole_lines(const ir::Value& view) {
  const ir::Op* alloc = ir::alloc_of(view);
  return alloc && alloc->operands.size() > 1 &&
         ir::divisor_of(*alloc->operands[ir::by_speed(view.type, 0)]) * ir::size_of(view.type.dtype) % kCacheLine == 0;
}

/// What moves an access of such rows within a line, and by how many bytes.
std::map<const ir::Value*, int64_t> moves_within_line(const Form& form) {
  std::map<const ir::Value*, int64_t> moves;
  for (const auto& [term, stride] : form.terms) {
    if (stride.known % kCacheLine != 0) moves[term] = stride.known;
  }
  return moves;
}

/// Bytes by which the first access of such rows lies further in its line than the second one, but for whole vectors;
/// nothing where they move otherwise.
std::optional<int64_t> apart_in_line(const Form& first, const Form& second, int64_t vector) {
  if (moves_within_line(first) != moves_within_line(second)) return {};
  const auto begin = [](const Form& form) {
    return form.offset.known + ir::alloc_of(*form.view)->lead * ir::size_of(form.view->type.dtype);
  };
  return floor_mod(begin(first) - begin(second), vector);
}

}  // namespace

std::optional<int64_t> VectorLoop::beyond_whole_vectors(const ir::Op& load) const {
  if (!has_whole_lines(*load.view()) || ir::alloc_of(*load.view())->escapes) return {};
  const Form form = address_form(load);
  const int64_t size = ir::size_of(form.view->type.dtype);
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::store_ || !has_whole_lines(*op->view())) continue;
    const auto apart = apart_in_line(form, address_form(*op), lanes_ * size);
    if (apart && *apart % size == 0) return *apart / size;
  }
  return {};
}

void VectorLoop::find_stretch(const ir::Op& first) {
  const Form form = address_form(first);
  const int64_t size = ir::size_of(form.view->type.dtype);
  int64_t low = 0, high = 0;
  std::set<int64_t> places;
  std::vector<std::pair<const ir::Op*, int64_t>> loads;
  for (const ir::Op* op = &first; op; op = op->next) {
    if (op->code == Opcode::poll_ || (ir::is_pure(op->code) && op->blocks.empty())) continue;
    if (op->code == Opcode::store_ && op->view() != form.view && !f_.module().graph.may_alias) continue;
    if (op->code != Opcode::load_) break;
    const ir::Value* v = op->result();
    if (op->view() != form.view || f_.module().uses[v->id] == 0) continue;
    if (targets_.contains(v->id) || neighbours_.contains(v->id)) continue;
    const Form other = address_form(*op);
    const int64_t apart = other.offset.known - form.offset.known;
    if (!same_form(other, form) || apart % size != 0) continue;
    const int64_t at = apart / size;
    if (std::max(high, at) - std::min(low, at) >= lanes_) continue;
    low = std::min(low, at), high = std::max(high, at);
    loads.emplace_back(op, at);
    places.insert(at);
  }
  const auto stretch = places.size() < kFewest ? nullptr : std::make_shared<Stretch>();
  const std::optional<int64_t> beyond = stretch ? beyond_whole_vectors(first) : std::nullopt;
  if (beyond) low -= floor_mod(low + *beyond, lanes_);
  if (stretch) stretch->low = low, stretch->width = high - low, stretch->in_lines = beyond.has_value();
  for (const auto& [op, at] : loads) neighbours_[op->result()->id] = {stretch, at - low};
}

void VectorLoop::load_stretch(const ir::Op& first, const Place& p, Stretch& stretch) {
  const DType t = first.result()->type.dtype;
  const int64_t whole = unroll_ + stretch.width / lanes_, rest = stretch.width % lanes_;
  for (int u = 0; u < whole + (rest != 0 ? 1 : 0); ++u) {
    x86::Mem m = lane_group(p, u);
    m.addOffset(stretch.low * ir::size_of(t));
    // Of the last vector nothing is read but what the loop reads, unless there is something to be read around the
    // array.
    stretch.vectors.push_back(u < whole || stretch.in_lines ? as_vec(load_contiguous(t, m, false, u))
                                                            : load_masked(t, m, first_lanes(rest)));
  }
}

x86::Reg VectorLoop::first_lanes(int64_t count) {
  auto [at, fresh] = first_lanes_.try_emplace(count);
  if (fresh) {
    x86::KReg mask = cc_.newKq();
    hoisted([&] {
      x86::Gp bits = cc_.newGpq();
      f_.load_imm(bits, (int64_t{1} << count) - 1);
      cc_.kmovq(mask, bits);
    });
    at->second = mask;
  }
  return at->second;
}

/// Of rows of whole lines only the neighbours of a vector lie in two of them, and take two loads' time. Where the loop
/// computes longer than that, shifts would be even more to compute.
bool VectorLoop::loads_as_they_lie() {
  if (as_they_lie_) return *as_they_lie_;
  // A stretch counts from the load that it is found for: those found here do not count.
  const auto found = neighbours_;
  int ops = 0, loads = 0;
  std::set<const Stretch*> stretches;
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::load_) {
      ops += ir::is_pure(op->code) && op->result() && ir::is_real(op->result()->type.dtype) && varying(op->result());
      continue;
    }
    if (!varying(op->result())) continue;
    const uint32_t id = op->result()->id;
    if (!neighbours_.contains(id)) find_stretch(*op);
    const auto at = neighbours_.find(id);
    const Stretch* stretch = at == neighbours_.end() ? nullptr : at->second.stretch.get();
    loads += stretch && !stretches.insert(stretch).second ? 2 : 1;
  }
  neighbours_ = found;
  as_they_lie_ = ops >= loads;
  return *as_they_lie_;
}

bool VectorLoop::load_neighbour(const ir::Op& op, const Place& p) {
  const ir::Value* v = op.result();
  const DType t = v->type.dtype;
  const int size = ir::size_of(t);
  if (!avx512_ || !exec_.all || p.kind != Place::Kind::contiguous || t == DType::bool_ || size < 4) return false;
  // One group of lanes would save next to no loads.
  if (unroll_ < 2 || lanes_ * size < 16 || targets_.contains(v->id) || op.parent != loop_.blocks[0]) return false;
  if (!neighbours_.contains(v->id)) find_stretch(op);
  const auto [stretch, at] = neighbours_.at(v->id);
  if (!stretch || (!stretch->in_lines && has_whole_lines(*op.view()) && loads_as_they_lie())) return false;
  if (stretch->vectors.empty()) load_stretch(op, p, *stretch);
  Regs r;
  for (int u = 0; u < unroll_; ++u) {
    const auto n = static_cast<size_t>(u + at / lanes_);
    x86::Vec x = vec(bytes(t));
    if (at % lanes_ == 0) {
      f_.move(x, stretch->vectors[n]);
    } else {
      cc_.emit(size == 8 ? Id::kIdValignq : Id::kIdValignd, x, stretch->vectors[n + 1], stretch->vectors[n],
               asmjit::Imm(at % lanes_));
    }
    r.push_back(x);
  }
  finish(v, r);
  return true;
}

}  // namespace appy::cpu
