// The comparison operators among each other.
#pragma once

#include "ir/ir.h"

namespace appy::passes {

inline bool is_comparison(ir::Opcode code) { return code >= ir::Opcode::eq_ && code <= ir::Opcode::ge_; }
/// <, <=, > or >=.
inline bool is_order(ir::Opcode code) { return code >= ir::Opcode::lt_ && code <= ir::Opcode::ge_; }

/// not (a OP b) is a inverse(OP) b, of numbers that are ordered.
inline ir::Opcode inverse(ir::Opcode code) {
  switch (code) {
    case ir::Opcode::eq_:
      return ir::Opcode::ne_;
    case ir::Opcode::ne_:
      return ir::Opcode::eq_;
    case ir::Opcode::lt_:
      return ir::Opcode::ge_;
    case ir::Opcode::le_:
      return ir::Opcode::gt_;
    case ir::Opcode::gt_:
      return ir::Opcode::le_;
    case ir::Opcode::ge_:
      return ir::Opcode::lt_;
    default:
      return code;
  }
}

/// a OP b is b mirrored(OP) a.
inline ir::Opcode mirrored(ir::Opcode code) {
  switch (code) {
    case ir::Opcode::lt_:
      return ir::Opcode::gt_;
    case ir::Opcode::le_:
      return ir::Opcode::ge_;
    case ir::Opcode::gt_:
      return ir::Opcode::lt_;
    case ir::Opcode::ge_:
      return ir::Opcode::le_;
    default:
      return code;
  }
}

}  // namespace appy::passes
