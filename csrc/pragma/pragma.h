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

/// `reduction(op[:target])` of a tensor pragma's item.
struct ItemReduction {
  std::string op, target;
};

/// One item of a tensor pragma: `[name=]slice=>property,...`.
struct TensorItem {
  std::string dim;   // slice text without spaces, a position, or a dim_info name
  std::string text;  // of the whole item, for messages
  bool parallel = false, simd = false, single_block = false, in_reg = false;
  std::optional<IntArg> le, block;
  std::vector<ItemReduction> reductions;
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

/// A dimension in the text of a statement that a tensor pragma stands before.
struct NamedSlice {
  /// Where the instruction that makes the slice stands; line 0: dimension `axis` of the whole array `array`.
  int line = 0, end_line = 0, column = -1, end_column = -1;
  std::string array;  // a variable, where the slice is of one
  int axis = -1;
  std::string text;
  std::vector<int> items;  // that name it: their numbers in the pragma
};

/// A name of dim_info: what the extent of that dimension is called.
struct ExtentName {
  std::string name, array;
  int axis = 0;
};

/// A pragma and the statement it speaks of. Lines count from 1, columns from 0; columns are -1 where they are not
/// known.
struct Placed {
  Pragma pragma;
  int line = 0, end_line = 0;           // of the statement
  int iter_line = 0, iter_column = -1;  // of a for loop's iterable: what FOR_ITER's position names
  int pragma_line = 0;                  // of the comment
  std::vector<NamedSlice> slices;       // the target's first, the others as they follow in the text
  std::vector<ExtentName> extents;
  std::vector<std::string> targets;  // variables that the statement assigns, or elements of them
};

}  // namespace appy::pragma
