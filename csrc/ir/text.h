// The graph as text: print(parse(t)) == t for printed text, parse(print(g)) is g.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>

#include "ir/ir.h"

namespace appy::ir {

struct PrintOptions {
  bool locs = false;     // source locations as trailing `loc(file:line:column)`
  bool remarks = false;  // what stages have remarked, behind the region
};
std::string print(const Graph&, PrintOptions = {});

struct ParseError : std::runtime_error {
  using std::runtime_error::runtime_error;  // "line 3, column 7: expected ..."
};
std::unique_ptr<Graph> parse(std::string_view);

}  // namespace appy::ir
