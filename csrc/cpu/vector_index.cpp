// Indices that lanes load from an array and test: `s += val[j] * x[idx[j]]`, where nothing says what idx holds.
//
// The main loop takes them not to be negative, so that one comparison tests a vector of them, and Python's wrapping of
// negative ones is left out: the first vector that holds one outside [0, extent) is computed again, and what follows
// it, by the code for the rest of the loop, which wraps and fails as Python does.
#include <algorithm>

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

std::optional<ir::IndexTest> VectorLoop::index_test(const ir::Op& check) const {
  const ir::Value* condition = check.operands[0];
  const auto test = ir::index_test(*condition);
  const auto once = [&](const ir::Value* v) { return f_.module().uses[v->id] == 1; };
  const bool alone =
      test && once(condition) && once(test->low->result()) && once(test->high->result()) && f_.is_extent(test->extent);
  return alone ? test : std::nullopt;
}

void VectorLoop::find_index_tests() {
  const bool plain = !d_.has_varying_if && !d_.has_inner_loop && element_ == 8;
  if (!may_replay_ || !plain) return;
  const ir::Block& body = *loop_.blocks[0];
  for (const ir::Op* check = body.first; check; check = check->next) {
    if (check->code != Opcode::check_ || check->check->declines) continue;
    const auto test = index_test(*check);
    if (!test || !varying(test->index) || varying(test->extent) || test->index->type.dtype != DType::i64_) continue;
    by_test_.insert({test->low, test->high, check->operands[0]->op});
    const ir::Op* wrap = test->index->op;
    if (is(test->index, Opcode::wrap_) && may_take_as_is(*wrap, *check, test->extent)) by_test_.insert(wrap);
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
  const auto test = index_test(check);
  const Regs index = get(test->index), extent = get(test->extent);
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
  if (ir::is_int(load.result()->type.dtype) && exec_.all && !d_.stores_inside)
    loaded_.insert_or_assign(load.result()->id, p);
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
  f_.load_scalar(t, word, m);
  return word;
}

}  // namespace appy::cpu
