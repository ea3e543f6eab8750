// How the loops over the dimensions of an array statement are arranged: as the items of its pragma say, and what they
// leave open as it is best for the memory.
#pragma once

#include <map>
#include <set>

#include "pragma/pragma.h"
#include "trace/tensor.h"

namespace appy::trace {

/// What the items that name a dimension say of it.
struct Said {
  int order = -1;  // of the first of them; -1: none names it
  bool parallel = false, simd = false, in_reg = false;
  bool small = false;         // le, le(n), single_block
  int64_t le = 0, block = 0;  // 0: nothing
  bool named() const { return order >= 0; }
};

/// A statement that is traced, with what its pragma says.
struct Statement {
  struct Item {
    const pragma::TensorItem* text = nullptr;
    int64_t le = 0, block = 0;      // arguments, evaluated at entry
    std::optional<int64_t> extent;  // of the slice that it is written as, at entry
    int position = -1;              // that it is written as
    bool found = false;             // it names a dimension
    bool kept = false;              // one that stays in a result
    std::set<std::string> ops;      // that reduce what it names
  };
  const pragma::Placed* placed = nullptr;
  std::vector<Item> items;
  std::map<const Dimension*, Said> inner;  // dimensions that disappear, by the nest around their loops
  std::vector<std::string> dims;           // of the first nest, for messages
  bool lanes = false;                      // the loops around have them
};

/// One loop of a nest.
struct NestLoop {
  size_t dim = 0;
  bool parallel = false, simd = false;
  bool alone = false;  // in any order, by one worker
  int64_t le = 0, chunk = 0;
  int64_t tile = 0;    // of a loop over tiles: elements of one
  int64_t unroll = 1;  // iterations whose elements are computed together
};

/// Outermost first. Dimensions of one element have no loop.
struct Mapping {
  std::vector<NestLoop> loops;
  bool lanes_said = false;  // an item wants lanes in this nest
};

/// What a nest runs over: its dimensions, those that disappear inside, and what is read and written.
struct Nest {
  std::span<ir::Value* const> shape;
  std::span<const Names> names;  // empty, or one a dimension
  std::span<const InnerRef> inner;
  std::span<const Read> touched;
  bool lanes = true;      // the innermost may have them
  bool in_order = false;  // elements may raise: the first one that does is to be the one
};
Mapping plan(Context&, const Nest&);

/// The loops over dimensions that disappear.
std::vector<NestLoop> plan_inner(Context&, std::span<const InnerRef>, Order);

/// What is said of the dimensions of an expression before its loops are made: the kept ones first, as `shape`.
std::vector<Said> said_of(Context&, std::span<ir::Value* const> shape, std::span<const Names>,
                          std::span<const InnerRef>);

/// What is wrong with the items, once the statement is traced.
std::vector<std::string> review(const Statement&);

}  // namespace appy::trace
