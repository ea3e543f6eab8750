// Checks that another one right behind them makes superfluous as long as that holds.
#pragma once

#include "ir/ir.h"

namespace appy::ir {

/// The check that fails wherever this one does, with nothing but pure ops and other such checks in between; null: there
/// is none. That a number lies between two bounds implies that it is neither NaN nor infinite.
const Op* implied_by(const Op& check);

}  // namespace appy::ir
