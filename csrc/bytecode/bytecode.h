// A code object as version-independent instructions with source positions.
#pragma once

#include <Python.h>

#include <cstdint>
#include <vector>

#include "pycompat/opcodes.h"

namespace appy::bytecode {

using pycompat::Op;

/// A source position; lines count from 1 (0: unknown), columns from 0 (-1: unknown).
struct Position {
  int line = 0, end_line = 0, column = -1, end_column = -1;
  friend bool operator==(const Position&, const Position&) = default;
};

struct Instruction {
  Op op = Op::nop_;
  int32_t arg = 0;  // see pycompat/opcodes.def; jumps: index of the target instruction, or its count when there is none
  int32_t arg2 = 0;
  int offset = 0;  // byte offset in co_code of the first code unit (EXTENDED_ARG included)
  Position position;
};

bool is_jump(Op);                      // for_iter and every jump, conditional or not
bool is_conditional_jump(Op);          // also goes on with the next instruction
bool is_terminal(const Instruction&);  // return, raise: control goes nowhere inside the code object

/// All instructions of a code object. Empty where the code cannot be read.
std::vector<Instruction> instructions(PyCodeObject*);

/// The position of each code unit of a code object (co_code's size / 2 entries), from its location table.
std::vector<Position> positions(PyCodeObject*);

/// An entry of the exception table: instructions in [begin, end) are covered by the handler at `target` (byte offsets).
struct Handler {
  int begin = 0, end = 0, target = 0;
};
std::vector<Handler> handlers(PyCodeObject*);

}  // namespace appy::bytecode
