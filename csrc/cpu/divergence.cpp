#include "cpu/divergence.h"

#include <algorithm>
#include <unordered_map>

#include "cpu/function.h"

namespace appy::cpu {

using ir::Opcode;

bool is_innermost(const ir::Op& loop) {
  bool inner = false;
  ir::walk(*loop.blocks[0], [&](const ir::Op& op) { inner |= op.code == Opcode::for_ || op.code == Opcode::while_; });
  return !inner;
}

Divergence::Divergence(const ir::Op& loop) : loop_(loop), varying_(loop.graph->value_count()) {
  for (const ir::Value* arg : loop.blocks[0]->args) varying_[arg->id] = true;
  while (update(*loop.blocks[0], false, &loop)) {
  }
  find_narrow_indices();
  survey();
}

bool Divergence::mark(const ir::Value* v) {
  if (varying_[v->id]) return false;
  varying_[v->id] = true;
  return true;
}

/// One pass over a block. `condition_varies`: control got here, from the start of the body of `loop`, through a varying
/// condition.
bool Divergence::update(const ir::Block& block, bool condition_varies, const ir::Op* loop) {
  bool changed = false;
  auto any_varying = [&](const std::vector<ir::Value*>& values) {
    return std::any_of(values.begin(), values.end(), [&](const ir::Value* v) { return varying(v); });
  };
  for (const ir::Op* op = block.first; op; op = op->next) {
    switch (op->code) {
      case Opcode::if_: {
        const bool varies = varying(op->operands[0]);
        for (const ir::Block* arm : op->blocks) changed |= update(*arm, condition_varies || varies, loop);
        for (size_t i = 0; i < op->results.size(); ++i) {
          bool result = varies;
          for (const ir::Block* arm : op->blocks) {
            if (arm->last->code == Opcode::yield_) result |= varying(arm->last->operands[i]);
          }
          if (result) changed |= mark(op->results[i]);
        }
        break;
      }
      case Opcode::for_:
      case Opcode::while_: {
        const ir::Block& body = *op->blocks[0];
        const size_t first = op->code == Opcode::for_ ? 3 : 0, first_arg = op->code == Opcode::for_ ? 1 : 0;
        if (first && (varying(op->operands[0]) || varying(op->operands[2]))) changed |= mark(body.args[0]);
        if (first && (varying(op->operands[0]) || varying(op->operands[1]) || varying(op->operands[2]))) {
          changed |= divergent_.insert(op).second;
        }
        for (size_t i = first; i < op->operands.size(); ++i) {
          if (varying(op->operands[i])) changed |= mark(body.args[first_arg + i - first]);
        }
        changed |= update(body, false, op);
        for (size_t i = 0; i < op->results.size(); ++i) {
          if (divergent(op) || varying(body.args[first_arg + i])) changed |= mark(op->results[i]);
        }
        break;
      }
      case Opcode::yield_:
      case Opcode::continue_:
      case Opcode::break_: {
        if (op->code == Opcode::yield_ && block.owner != loop) break;
        const size_t first_arg = loop->code == Opcode::for_ ? 1 : 0;
        const ir::Block& body = *loop->blocks[0];
        if (condition_varies && op->code == Opcode::break_) changed |= divergent_.insert(loop).second;
        if (condition_varies && op->code == Opcode::continue_) changed |= splits_.insert(loop).second;
        for (size_t i = 0; i < op->operands.size(); ++i) {
          const bool to_result = op->code == Opcode::break_;
          const ir::Value* target = to_result ? loop->results[i] : body.args[first_arg + i];
          if (varying(op->operands[i]) || (!to_result && splits(loop))) changed |= mark(target);
          // Only a divergent loop has other registers for its results than for its carried values.
          if (to_result && varying(target) && !divergent(loop)) changed |= mark(body.args[first_arg + i]);
        }
        break;
      }
      default:
        if (!op->results.empty() && op->code != Opcode::const_ && any_varying(op->operands)) {
          changed |= mark(op->results[0]);
        }
    }
  }
  return changed;
}

bool Divergence::uniform(const ir::Op& op) const {
  if (op.code == Opcode::check_ || op.code == Opcode::atomic_ || ir::is_terminator(op.code)) return false;
  auto is_varying = [&](const ir::Value* v) { return varying(v); };
  if (std::any_of(op.operands.begin(), op.operands.end(), is_varying)) return false;
  if (std::any_of(op.results.begin(), op.results.end(), is_varying)) return false;
  if (divergent(&op)) return false;
  for (const ir::Block* block : op.blocks) {
    if (std::any_of(block->args.begin(), block->args.end(), is_varying)) return false;
    for (const ir::Op* inner = block->first; inner; inner = inner->next) {
      if (ir::is_terminator(inner->code)) {
        if (inner->code != Opcode::yield_ && op.code == Opcode::if_) return false;
      } else if (inner->code == Opcode::if_ && (op.code == Opcode::for_ || op.code == Opcode::while_)) {
        // An arm may leave or continue this very loop.
        bool inside = true;
        auto is_uniform = [&](auto& self, const ir::Op& at) -> bool {
          if (ir::is_terminator(at.code)) return std::none_of(at.operands.begin(), at.operands.end(), is_varying);
          if (at.code != Opcode::if_) return uniform(at);
          if (varying(at.operands[0])) return false;
          for (const ir::Block* arm : at.blocks) {
            for (const ir::Op* o = arm->first; o; o = o->next) {
              if (!self(self, *o)) return false;
            }
          }
          return true;
        };
        inside = is_uniform(is_uniform, *inner);
        if (!inside) return false;
      } else if (!uniform(*inner)) {
        return false;
      }
    }
  }
  return true;
}

void Divergence::find_narrow_indices() {
  std::unordered_map<const ir::Value*, int> uses, as_index;
  ir::walk(*loop_.blocks[0], [&](ir::Op& op) {
    if (!op.access) return;
    // The gather's index is this one term, at a scale of the addressing mode.
    const ir::Value* index = nullptr;
    int others = 0, scale = 0;
    for (const auto& [term, stride] : address_form(op).terms) {
      if (!varying(term)) continue;
      ++others;
      index = term;
      scale = stride.constant() && stride.known > 0 && stride.known <= 8 ? static_cast<int>(stride.known) : 0;
    }
    if (others == 1 && index != linear() && (scale == 1 || scale == 2 || scale == 4 || scale == 8)) {
      for (size_t i = op.first_term(); i < op.operands.size(); ++i) as_index[index] += op.operands[i] == index;
    }
  });
  if (as_index.empty()) return;
  ir::walk(*loop_.blocks[0], [&](ir::Op& op) {
    for (const ir::Value* v : op.operands) ++uses[v];
  });
  for (auto [v, count] : as_index) {
    const bool widened = v->op && v->op->code == Opcode::cast_ && v->type.dtype == ir::DType::i64_ &&
                         v->op->operands[0]->type.dtype == ir::DType::i32_ &&
                         !ir::defined_outside(*v, *loop_.blocks[0]);
    if (widened && uses[v] == count) narrow_.insert(v);
  }
}

void Divergence::survey() {
  auto widen = [&](ir::DType t) {
    if (t != ir::DType::bool_) widest = std::max(widest, ir::size_of(t));
  };
  for (size_t i = 1; i < loop_.blocks[0]->args.size(); ++i) widen(loop_.blocks[0]->args[i]->type.dtype);
  ir::walk(*loop_.blocks[0], [&](ir::Op& op) {
    if (op.code == Opcode::check_) {
      has_check = true;
      check_after_store |= stores;
    }
    has_alloc |= op.code == Opcode::alloc_;
    const bool updates = op.code == Opcode::store_ || op.code == Opcode::atomic_;
    stores |= updates;
    stores_inside |= updates && ir::enclosing_loop(*op.parent) != &loop_;
    if (op.code == Opcode::for_ || op.code == Opcode::while_) {
      has_inner_loop = true;
      branches_in_loop |= op.parent != loop_.blocks[0];
      if (divergent(&op) && op.code == Opcode::for_) {
        widest = 8;
        const ir::Value* step = op.operands[2];
        const bool unit = step->op && step->op->code == Opcode::const_ &&
                          (static_cast<int64_t>(step->op->imm) == 1 || static_cast<int64_t>(step->op->imm) == -1);
        unsupported_loop |= !unit;
      }
      // A later iteration of the inner loop checks after an earlier one stored.
      bool checks = false, changes = false;
      ir::walk(*op.blocks[0], [&](ir::Op& inner) {
        checks |= inner.code == Opcode::check_;
        changes |= inner.code == Opcode::store_ || inner.code == Opcode::atomic_;
      });
      check_after_store |= checks && changes;
    }
    if (op.code == Opcode::for_ && is_innermost(op)) {
      const auto count =
          std::count_if(op.results.begin(), op.results.end(), [&](const ir::Value* v) { return varying(v); });
      sums_inside = std::max(sums_inside, static_cast<size_t>(count));
    }
    if (op.code == Opcode::if_ && varying(op.operands[0])) {
      has_varying_if = true;
      branches_in_loop |= ir::enclosing_loop(*op.parent) != &loop_;
    }
    if (op.code == Opcode::break_ && ir::enclosing_loop(*op.parent) == &loop_) own_break = true;
    bool any = false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ir::Value* v = op.operands[i];
      if (!varying(v)) continue;
      any = true;
      const bool term = op.access && i >= op.first_term();
      has_gather |= term && v != linear();
      if (v == linear()) {
        value_of_linear |= !term;
        if (!term) widest = 8;
      } else if (!v->type.is_view() && !narrow_index(v)) {
        widen(v->type.dtype);
      }
    }
    for (const ir::Value* v : op.results) {
      if (!varying(v)) continue;
      any = true;
      if (!narrow_index(v)) widen(v->type.dtype);
    }
    if ((op.code == Opcode::store_ && any) || op.code == Opcode::atomic_) widen(op.operands[0]->type.dtype);
    const bool divides = op.code == Opcode::floordiv_ || op.code == Opcode::mod_ || op.code == Opcode::rem_;
    if (any && divides && ir::is_int(op.result()->type.dtype)) widest = 8;
    ops += any && op.code != Opcode::if_ && !ir::is_terminator(op.code);
  });
  if (widest == 0) widest = 1;
}

}  // namespace appy::cpu
