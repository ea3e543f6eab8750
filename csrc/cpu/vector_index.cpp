// Indices that lanes load from an array and test: `s += val[j] * x[idx[j]]`, where nothing says what idx holds.
//
// The main loop takes them not to be negative, so that one comparison tests a vector of them, and Python's wrapping of
// negative ones is left out: the first vector that holds one outside [0, extent) is computed again, and what follows
// it, by the code for the rest of the loop, which wraps and fails as Python does.
#include <algorithm>
#include <array>

#include "cpu/vector_loop.h"
#include "cpu/vector_regs.h"

namespace appy::cpu {

namespace Id = x86::Inst;
using ir::DType;
using ir::Opcode;

namespace {

bool is(const ir::Value* v, Opcode code) { return v->op && v->op->code == code; }

/// An element of an array, maybe of another width.
bool is_loaded(const ir::Value* v) {
  if (is(v, Opcode::cast_)) v = v->op->operands[0];
  return is(v, Opcode::load_);
}

}  // namespace

/// The comparisons 0 <= index and index < extent that the check's condition consists of, or none.
std::array<const ir::Op*, 2> VectorLoop::index_comparisons(const ir::Op& check) const {
  const ir::Value* both = check.operands[0];
  if (!is(both, Opcode::and_) || f_.module().uses[both->id] != 1) return {};
  const ir::Op *low = both->op->operands[0]->op, *high = both->op->operands[1]->op;
  if (low && low->code == Opcode::lt_) std::swap(low, high);
  if (!low || !high || low->code != Opcode::ge_ || high->code != Opcode::lt_) return {};
  const ir::Value *zero = low->operands[1], *extent = high->operands[1];
  const bool is_extent = f_.is_const(extent) ? f_.const_int(extent) >= 0 : is(extent, Opcode::dim_);
  const bool once = f_.module().uses[low->result()->id] == 1 && f_.module().uses[high->result()->id] == 1;
  if (low->operands[0] != high->operands[0] || !f_.is_const(zero) || f_.const_int(zero) != 0 || !is_extent || !once)
    return {};
  return {low, high};
}

void VectorLoop::find_index_tests() {
  by_test_.clear();
  const bool plain = !d_.has_varying_if && !d_.has_inner_loop && element_ == 8;
  if (!may_replay_ || !plain) return;
  const ir::Block& body = *loop_.blocks[0];
  for (const ir::Op* check = body.first; check; check = check->next) {
    if (check->code != Opcode::check_ || check->check->declines) continue;
    const auto [low, high] = index_comparisons(*check);
    if (!low) continue;
    const ir::Value* index = low->operands[0];
    if (!varying(index) || varying(high->operands[1]) || index->type.dtype != DType::i64_) continue;
    by_test_.insert({low, high, check->operands[0]->op});
    if (is(index, Opcode::wrap_) && may_take_as_is(*index->op, *check, high->operands[1])) by_test_.insert(index->op);
  }
}

/// The wrap of a loaded index, which nothing uses before its test.
bool VectorLoop::may_take_as_is(const ir::Op& wrap, const ir::Op& check, const ir::Value* extent) const {
  if (wrap.parent != check.parent || wrap.operands[1] != extent || !is_loaded(wrap.operands[0])) return false;
  for (const ir::Op* op = wrap.next; op && op != &check; op = op->next) {
    const bool uses = std::find(op->operands.begin(), op->operands.end(), wrap.result()) != op->operands.end();
    if (uses && !by_test_.contains(op)) return false;
  }
  return true;
}

bool VectorLoop::left_to_test(const ir::Op& op) {
  if (!by_test_.contains(&op)) return false;
  if (op.code == Opcode::wrap_) set(op.result(), get(op.operands[0]));
  return true;
}

bool VectorLoop::test_index(const ir::Op& check) {
  if (!by_test_.contains(check.operands[0]->op)) return false;
  const auto [low, high] = index_comparisons(check);
  const Regs index = get(low->operands[0]), extent = get(high->operands[1]);
  x86::Reg all;
  for (size_t u = 0; u < index.size(); ++u) {
    const x86::Vec at = as_vec(index[u]), end = as_vec(extent[std::min(u, extent.size() - 1)]);
    x86::Reg inside;
    if (avx512_) {
      inside = new_mask();
      cc_.vpcmpuq(inside.as<x86::KReg>(), at, end, 1);
    } else {
      // The sign of what is no negative index, and less than the extent.
      const x86::Vec less = vec(bytes(DType::i64_)), fits = vec(bytes(DType::i64_));
      cc_.vpcmpgtq(less, end, at);
      cc_.vpandn(fits, at, less);
      inside = fits;
    }
    all = u == 0 ? inside : mask_and(all, inside);
  }
  if (avx512_) {
    cc_.emit(k_inst(Id::kIdKortestb, Id::kIdKortestw, Id::kIdKortestd, Id::kIdKortestq), all, all);
    cc_.jnc(undone_);
    return true;
  }
  x86::Gp bits = cc_.newGpd();
  cc_.vmovmskpd(bits, as_vec(all));
  cc_.cmp(bits, (1 << lanes_) - 1);
  cc_.jne(undone_);
  return true;
}

void VectorLoop::note_loaded(const ir::Op& load, const Place& p) {
  const DType t = load.result()->type.dtype;
  const bool as_word = t == DType::i64_ || t == DType::u64_ || t == DType::i32_ || t == DType::u32_;
  if (as_word && !avx512_ && exec_.all && !stores_) loaded_.insert_or_assign(load.result()->id, p);
}

const VectorLoop::Place* VectorLoop::place_of_indices(const ir::Value*& index) const {
  if (!index || !exec_.all) return nullptr;
  if (is(index, Opcode::wrap_) && by_test_.contains(index->op)) index = index->op->operands[0];
  if (is(index, Opcode::cast_)) index = index->op->operands[0];
  const auto found = loaded_.find(index->id);
  return found == loaded_.end() ? nullptr : &found->second;
}

x86::Gp VectorLoop::load_index(const ir::Value& index, const Place& p, int u, size_t lane) {
  const DType t = index.type.dtype;
  x86::Mem m = lane_group(p, u);
  m.addOffset(static_cast<int64_t>(lane) * ir::size_of(t));
  m.setSize(static_cast<uint32_t>(ir::size_of(t)));
  x86::Gp word = cc_.newGpq();
  if (t == DType::i32_) {
    cc_.movsxd(word, m);
  } else if (t == DType::u32_) {
    cc_.mov(word.r32(), m);
  } else {
    cc_.mov(word, m);
  }
  return word;
}

}  // namespace appy::cpu
