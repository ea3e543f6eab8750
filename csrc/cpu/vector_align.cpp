// Where a loop begins: with some iterations under a mask, so that what whole vectors store, or load for many sums, does
// not cross the lines of the cache; and whether its stores go around the caches.
#include <bit>
#include <map>
#include <vector>

#include "cpu/vector_loop.h"

namespace appy::cpu {

using ir::DType;
using ir::Opcode;

namespace {

constexpr int kWorthAligning = 8;  // groups of lanes
/// The same, where both ends are stored under masks then, and none without. With AVX2 these are 40 operations for eight
/// elements on a Zen 2: shortest paths between 400 nodes, int32, take 3.8 ms so and 3.3 as they lie.
constexpr int kWorthMasks = 64;
constexpr int kWorthAligningSums = 16;    // the same, where what comes before is loaded for many sums
constexpr size_t kLoadsToAlign = 4;       // fewer are loaded in time as they are
constexpr int kMostToWaitForMemory = 24;  // operations of a loop that has nothing to do but wait for memory

}  // namespace

bool VectorLoop::waits_for_memory() const { return d_.ops <= kMostToWaitForMemory; }

bool VectorLoop::may_align(const Function::Bounds& bounds) const {
  if (masked_only_ || d_.has_inner_loop || d_.has_check || !accumulators_.empty()) return false;
  if (!bounds.step_known || bounds.step != 1) return false;
  return bounds.known_trips < 0 || bounds.known_trips >= kWorthAligning * lanes_;
}

const ir::Op* VectorLoop::store_to_align(const Function::Bounds& bounds) const {
  // Where there is much to compute, a store that crosses a cache line is no matter.
  if (!may_align(bounds) || !waits_for_memory()) return nullptr;
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::store_ || bytes(op->operands[0]->type.dtype) != f_.module().vector_bytes()) continue;
    if (op->operands[0]->type.dtype == DType::bool_) continue;
    const ir::Op* pair = nullptr;
    if (runs_along_lanes(*op, pair)) {
      return pair && address_form(*pair).offset.known < address_form(*op).offset.known ? pair : op;
    }
  }
  return nullptr;
}

bool VectorLoop::runs_along_lanes(const ir::Op& access, const ir::Op*& pair) const {
  bool linear = false, other = false;
  const Form form = address_form(access);
  for (const auto& [term, stride] : form.terms) {
    const int size = ir::size_of(form.view->type.dtype);
    const bool unit = stride.constant() && stride.known == size;
    // The first element of pairs stands for both.
    if (term == d_.linear() && stride.constant() && stride.known == 2 * size && size >= 4) pair = neighbour(access);
    (term == d_.linear() && (unit || pair) ? linear : other) |= varying(term);
  }
  return linear && !other;
}

std::vector<const ir::Op*> VectorLoop::loads_to_align(const Function::Bounds& bounds) const {
  if (masked_only_ || one_vector_ || d_.has_inner_loop || d_.has_check || accumulators_.empty() || main_unroll_ > 1)
    return {};
  if (!avx512_ || !bounds.step_known || bounds.step != 1) return {};
  if (bounds.known_trips >= 0 && bounds.known_trips < kWorthAligningSums * lanes_) return {};
  // Of one array: another one may lie otherwise.
  std::map<const ir::Value*, std::vector<const ir::Op*>> loads;
  const std::vector<const ir::Op*>* most = nullptr;
  for (const ir::Op* op = loop_.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::load_ || bytes(op->result()->type.dtype) != f_.module().vector_bytes()) continue;
    const ir::Op* pair = nullptr;
    if (!runs_along_lanes(*op, pair) || pair) continue;
    auto& same = loads[op->view()];
    same.push_back(op);
    if (!most || same.size() > most->size()) most = &same;
  }
  return most && most->size() >= kLoadsToAlign ? *most : std::vector<const ir::Op*>();
}

bool VectorLoop::plan_stream(const Function::Bounds& bounds) {
  if (!may_align(bounds)) return false;
  stream_ = find_stream(f_.module().graph, f_.module().accesses, loop_);
  std::erase_if(stream_.stores, [&](const ir::Op* store) { return bytes(store->operands[0]->type.dtype) < 16; });
  if (stream_.stores.empty()) return false;
  worth_streaming_ = f_.worth_streaming(stream_);
  return worth_streaming_.isValid();
}

void VectorLoop::decide_to_stream() {
  x86::Gp wrong = cc_.newGpq();
  cc_.xor_(wrong.r32(), wrong.r32());
  for (const ir::Op* store : stream_.stores) {
    x86::Gp at = cc_.newGpq();
    x86::Mem first = place(*store).base;
    first.setSize(0);
    cc_.lea(at, first);
    cc_.and_(at, bytes(store->operands[0]->type.dtype) - 1);
    cc_.or_(wrong, at);
  }
  streaming_ = cc_.newGpq("streaming");
  x86::Gp none = cc_.newGpq();
  cc_.xor_(none.r32(), none.r32());
  cc_.mov(streaming_, worth_streaming_);
  cc_.test(wrong, wrong);
  cc_.cmovnz(streaming_, none);
  f_.note_streamed(streaming_);
}

void VectorLoop::align(const ir::Op& store, x86::Gp only_if) {
  asmjit::Label done = cc_.newLabel();
  x86::Gp before = cc_.newGpq();
  if (only_if.isValid()) {
    cc_.test(only_if, only_if);
    cc_.jz(done);
  }
  cc_.cmp(left_, kWorthAligning * lanes_);
  cc_.jb(done);
  if (!avx512_ && !repeats_ && element_ < 8) {
    asmjit::Label ends_in_between = cc_.newLabel();
    cc_.test(left_, lanes_ - 1);
    cc_.jnz(ends_in_between);
    cc_.cmp(left_, kWorthMasks * lanes_);
    cc_.jb(done);
    cc_.bind(ends_in_between);
  }
  const Place p = place(store);
  x86::Mem at = p.base;
  at.setSize(0);
  cc_.lea(before, at);
  begin_before(before, static_cast<unsigned>(p.stride), done);
  cc_.bind(done);
}

void VectorLoop::align_loads(const std::vector<const ir::Op*>& loads) {
  asmjit::Label done = cc_.newLabel();
  cc_.cmp(left_, kWorthAligningSums * lanes_);
  cc_.jb(done);
  x86::Gp first = cc_.newGpq(), apart = cc_.newGpq(), at = cc_.newGpq();
  const auto address = [&](x86::Gp to, const ir::Op& load) {
    x86::Mem m = place(load).base;
    m.setSize(0);
    cc_.lea(to, m);
  };
  address(first, *loads[0]);
  cc_.xor_(apart.r32(), apart.r32());
  for (size_t k = 1; k < loads.size(); ++k) {
    address(at, *loads[k]);
    cc_.xor_(at, first);
    cc_.or_(apart, at);
  }
  cc_.test(apart, f_.module().vector_bytes() - 1);
  cc_.jnz(done);
  begin_before(first, static_cast<unsigned>(ir::size_of(loads[0]->result()->type.dtype)), done);
  cc_.bind(done);
}

void VectorLoop::begin_before(x86::Gp address, unsigned size, asmjit::Label done) {
  cc_.neg(address);
  cc_.and_(address, f_.module().vector_bytes() - 1);
  cc_.jz(done);
  if (size > 1) {
    cc_.test(address, size - 1);
    cc_.jnz(done);
    cc_.shr(address, std::countr_zero(size));
  }
  cc_.mov(rest_, left_);
  cc_.sub(rest_, address);
  cc_.mov(left_, address);
  if (repeats_) {
    // Vectors of fewer bytes than the stores are aligned to may be several.
    x86::Gp least = cc_.newGpq();
    cc_.mov(least.r32(), lanes_);
    cc_.cmp(left_, least);
    cc_.cmovb(left_, least);
  }
  cc_.jmp(ending_);
}

}  // namespace appy::cpu
