// Loops that go over arrays again and again: `for t`, in order, around phases, each of which touches, in its iteration
// x, rows x + constant of what is written. Which points (t, phase, x) need which others, and how fast that spreads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/ir.h"
#include "passes/affine.h"
#include "passes/copier.h"

namespace appy::passes {

/// One pass over the rows, or over a single row.
struct Phase {
  std::vector<ir::Op*> ops;  // a loop, or what computes one element, the store last
  ir::Op* loop = nullptr;    // over the rows; null: `row` is the only one
  Affine row;
  /// The variable of the loop at point x is x + shift. Points are numbered so that what is stored at x is row x.
  int64_t shift = 0;
  struct Touch {
    ir::Op* access;
    int64_t offset;    // at point x it touches row x + offset
    int64_t line = 0;  // and at line y of it line y + this
  };
  std::vector<Touch> touches;  // of views that are written
  int64_t right = 0, left = 0;
  /// Where rows are planes: the loop over the lines of one, and the same of lines as above of rows.
  ir::Op* lines = nullptr;
  int64_t line_shift = 0, line_right = 0;
};

/// Point x of phase p in iteration t needs, of a phase before, at most the points from
///   x - ((left + t * slope_left) - that phase's) to x + ((right + t * slope_right) - that phase's).
/// That counts for what it overwrites, too.
struct Stencil {
  ir::Op* loop = nullptr;
  std::vector<Phase> phases;
  std::unordered_map<const ir::Value*, size_t> dimension;  // of the views that are written: which one counts rows
  int64_t slope_right = 0, slope_left = 0;
  int64_t reach = 0;  // the farthest point needed of any phase
  int64_t most_right = 0, most_left = 0;
  /// Each phase goes over planes, in loops over lines that have loops inside: line y of (t, phase) needs, of a phase
  /// before, at most the lines to y + ((line_right + t * line_slope) - that phase's).
  bool planes = false;
  int64_t line_slope = 0, most_line_right = 0;
  bool parallel = false;  // workers may share the points of each phase
  int32_t threads = 0;    // so many, where a pragma says so
  /// Values of the body that no phase computes with, although it may hand them on: loop variables and the like.
  std::set<const ir::Value*> handed_on;
};

/// The loop as a stencil. Where it is none, `why` says so if it looks like one.
std::optional<Stencil> read_stencil(ir::Op& loop, std::string& why);

/// Gives each loop that is a stencil to `tile`, which tiles it or returns why it does not, and remarks either: `how` it
/// takes several iterations at a time. Has any been tiled?
bool tile_stencils(ir::Graph&, std::string_view stage, std::string_view how,
                   const std::function<std::string(const Stencil&)>& tile);

/// Values that its phases hand on, from where they begin.
std::vector<ir::Value*> handed_to_phases(const Stencil&);
/// Copies to the block's end what the body computes for its phases.
void copy_shared(const Stencil&, Copier&, ir::Block& to);

}  // namespace appy::passes
