// A graph, with its loops given to workers and lanes (passes/distribute.cpp), as CUDA C++.
//
// One kernel is one region. Code outside distributed loops is run by every thread alike: control flow there is uniform,
// loads are everyone's, stores one thread's, and barriers stand where passes/barriers.cpp put them. A worker is
// `lanes` threads: part of a warp, or a block. Where there is work for one worker only, that is a block.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "gpu/tiling.h"
#include "ir/ir.h"

namespace appy::gpu {

/// Who has an array. `block`: a worker that is a block whatever others are, as there is only one of it.
enum class ArrayOwner : uint8_t { region, block, worker, thread };

struct KernelShape {
  int block = 256;      // threads a block
  int lanes = 32;       // threads a worker: a power of two up to 32, or `block`
  int columns = 32;     // workers side by side in a block, in loops over columns: 8, 16 or 32
  int rows = 0;         // of a column that a thread has at most, all in flight; 0 where they are many
  int unroll = 1;       // iterations of a loop, or rows of a plane, that a thread has in flight
  bool march = false;   // stencils over boxes go in order along the dimension around their rows
  int piece = 0;        // bytes that a thread loads or stores at once where neighbours in memory allow it, or 0
  bool narrow = false;  // no byte of an array is 2^31 or more away from its first element
  uint64_t tiles = 0;   // TileSize of nests that may have tiles: two bits each, in the graph's order
  bool shared = false;  // arrays of a worker's own are in shared memory: their addresses count from its start
  int given = -1;       // the number of the nest whose sums a library has computed, or -1
  bool stored = false;  // it has done all of the nest
  uint32_t taken = 0;   // of each of the host's versions, two bits: 1 for the first one alone, 2 for the other one
  bool in_shared(ArrayOwner owner) const {
    return shared && (owner == ArrayOwner::worker || owner == ArrayOwner::block);
  }
  TileSize tile_size(size_t nest) const {
    return nest < 32 ? static_cast<TileSize>(tiles >> (2 * nest) & 3) : TileSize::none;
  }
  friend auto operator<=>(const KernelShape&, const KernelShape&) = default;
};

/// An array of the region's own: where in the parameters its address is, and who has one each.
struct ArrayUse {
  using Owner = ArrayOwner;
  const ir::Op* alloc = nullptr;
  Owner owner = Owner::region;
};

/// A nest whose threads go in order along a dimension (march.cpp): what a step loads, in all of its rows, what it would
/// load if nothing were kept from the step before, and what is kept.
struct March {
  ir::LocId loc = 0;
  int rows = 0, loads = 0, loads_alone = 0, kept = 0;
};

struct KernelCode {
  std::string text;   // includes "appy_device.h"
  std::string entry;  // the kernel's name
  /// The parameter is a struct of so many words: the graph's arguments as in runtime/kernel.h, then results, fault,
  /// barrier and partials (prelude.cpp, Control), then those of given sums, then the address of each array, then how
  /// many elements each has room for.
  size_t words = 0;
  /// Where sums are given: the first of three words, their address, the elements from one row to the next, and whether
  /// the launch is the one before them; and whether there is anything to do in that, and in the other one.
  size_t given_words = 0;
  bool before_given = false, behind_given = false;
  std::vector<ArrayUse> arrays;
  size_t partial_bytes = 0;    // of one partial result; 0 where blocks never combine any
  size_t shared_bytes = 0;     // of dynamic shared memory
  bool meets = false;          // all blocks wait for each other: they must be resident together
  bool leaves = false;         // at barriers in loops the host may tell it to end
  bool checks = false;         // a fault may be told
  bool tiles = false;          // includes "appy_product.h"
  bool updates = false;        // includes "appy_update.h"
  std::vector<March> marches;  // where there is one, all blocks are to be resident together
  bool in_turn = false;        // between short meetings one block works, and all others wait for it
};

struct CodegenOptions {
  KernelShape shape;
  /// Top-level checks that the host has made.
  std::set<const ir::Op*> made;
  /// Where the shape may say which version is taken, in its order.
  std::vector<const ir::Op*> versions;
  /// Which of the region's results are wanted from the device.
  std::vector<bool> results;
  /// Arrays that outlive the region and whose extents the host does not know: told behind the region's results.
  std::vector<const ir::Op*> told;
  /// Parameters whose elements may lie at any address, by parameter.
  std::vector<bool> unaligned;
  int multiprocessors = 1;  // of the device
  /// Where not empty, threads come late to barriers, by random numbers that start from this one.
  std::string delays;
  /// Does the text tell of the source's lines?
  bool lines = true;
  /// The text of a source line, for comments; may be empty, or give an empty text.
  std::function<std::string(const std::string& file, int line)> source_line;
};

/// Throws Abort for what this backend cannot do.
KernelCode generate(const ir::Graph&, const CodegenOptions&);

/// A kernel's text for the compiler: `#line` before each line, since the lines behind a `#line` are counted on.
std::string with_each_line(const std::string& text);
/// A kernel's text without the lines of its source, which says the same wherever the source has moved to.
std::string without_lines(const std::string& text);

}  // namespace appy::gpu
