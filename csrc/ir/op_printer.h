// Names of values and one-line text of ops; shared by the printer, the verifier and the evaluator's errors.
#pragma once

#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"

namespace appy::ir {

/// Text of a type: `f64`, `f32[2,inner]`.
std::string to_string(const Type&);

/// Text of a word: `true`, `-3`, `1.5`, `nan`, `nan(0x7ff8000000000001)`. Reads back to the same bits.
std::string to_string(DType, Word);

/// The string in quotes, with escapes.
std::string quoted(std::string_view);

class OpPrinter {
 public:
  /// Names every value of the graph: its own name made unique, or a number, dense in print order.
  explicit OpPrinter(const Graph&);

  /// "%name"; "%?12" for a value that the graph does not define.
  std::string name(const Value&) const;

  /// The op as it stands in the graph's text, without its blocks (and without their braces). Takes malformed ops too.
  std::string line(const Op&) const;
  /// The same behind a text.
  void line(const Op&, std::string& text) const;

  /// `loc("file":3:5 inlined at "g":7:1)`, empty for an unknown location. `file` is the one said last, which is left
  /// out where it is meant again.
  std::string loc(LocId, std::string& file) const;

  /// Subscripts of an access, with brackets: `[%i + 1, 2*%j - 3]`.
  std::string subscripts(const Op&) const;

 private:
  void name_block(const Block&);
  void name_value(const Value&);
  // Behind a text, as lines are.
  void name(const Value&, std::string& text) const;
  void names(std::span<Value* const>, std::string& text) const;
  void subscripts(const Op&, std::string& text) const;
  void loop_head(const Op&, std::string& text) const;
  void check(const Op&, std::string& text) const;

  const Graph& graph_;
  std::vector<std::string> names_;              // by Value::id
  std::unordered_map<std::string, int> taken_;  // names in use -> the suffix to try next
  uint32_t next_number_ = 0;
};

}  // namespace appy::ir
