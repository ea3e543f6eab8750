// What the passes that say what a region is as a whole have in common: all that they do not know is no match.
#pragma once

#include <initializer_list>
#include <vector>

#include "ir/ir.h"

namespace appy::passes {

/// Counts by one to where its bound says and not less far, for one worker or whoever takes part: nobody has divided it.
bool counts_up(const ir::Op& loop);
/// The same from 0.
bool counts_from_zero(const ir::Op& loop);
/// The only op of the body with an effect, beside checks that decline before it: a loop in order without results, from
/// 0 to what is known where the region is entered. Null where the region is anything else.
struct OnlyLoop {
  const ir::Op* loop = nullptr;
  ir::Length length;
};
OnlyLoop only_loop(const ir::Graph&);
/// Beside `all` ops, in any order, the block has nothing but pure ones, polls and its yield.
bool has_only(const ir::Block&, const std::vector<const ir::Op*>& all);
/// The op that makes the value, if it is of this kind.
const ir::Op* defined_by(const ir::Value&, ir::Opcode);
/// The access is to the element of a parameter that has these subscripts.
bool is_element(const ir::Op& access, std::initializer_list<const ir::Value*> of);
/// A loop from 0 that makes one sum of products of two loads, in any order: the loads, or null.
struct SumOfProducts {
  const ir::Op *a = nullptr, *b = nullptr;
  const ir::Value* step = nullptr;
};
SumOfProducts sum_of_products(const ir::Op& loop, ir::DType);
/// The loop ends at the value, or where the matrix does, if that is before.
bool ends_at(const ir::Op& loop, const ir::Value& end, const ir::Value& matrix);

}  // namespace appy::passes
