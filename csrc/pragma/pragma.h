// One pragma as data, and the parser of its text. Knows comment text and columns, not files or frames.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace appy::pragma {

/// An integer argument of a clause: a literal, or an expression over names known when the region is entered. The
/// caller evaluates `text` and fills `value`; 0 means "not given".
struct IntArg {
  int64_t value = 0;
  std::string text;  // empty when the literal is in `value`
};

struct ReductionClause {
  std::string op;  // sum prod max min argmax argmin any all & | ^ (`+` and `*` are read as sum, prod)
  std::vector<std::string> names;
};

/// What stands before a `for` over range.
struct LoopPragma {
  bool parallel = false;
  bool simd = false;
  bool sequential = false;
  std::vector<std::string> shared, private_;
  std::vector<ReductionClause> reductions;
  IntArg collapse, threads, block, le, chunk;
  enum class Schedule : uint8_t { automatic, statically, dynamic } schedule = Schedule::automatic;
};

/// One item of a tensor pragma: `[name=]slice=>property,...`.
struct TensorItem {
  std::string dim;  // slice text without spaces, a position, or a dim_info name
  bool parallel = false, simd = false, single_block = false, in_reg = false;
  std::optional<IntArg> le, block;
  std::string reduction, reduction_target;
};

struct Pragma {
  std::optional<LoopPragma> loop;
  bool atomic = false;
  std::vector<TensorItem> items;
};

/// Where in its text a pragma could not be read: `column` counts from 0.
struct SyntaxError : std::runtime_error {
  int column;
  SyntaxError(int column, const std::string& expected) : std::runtime_error(expected), column(column) {}
};

/// Parses what follows the word `pragma`; several comment lines in a row arrive joined by '\n'.
Pragma parse(std::string_view text);

/// A pragma and the statement it speaks of. Lines count from 1, columns from 0; columns are -1 where they are not
/// known.
struct Placed {
  Pragma pragma;
  int line = 0, end_line = 0;           // of the statement
  int iter_line = 0, iter_column = -1;  // of a for loop's iterable: what FOR_ITER's position names
  int pragma_line = 0;                  // of the comment
};

}  // namespace appy::pragma
