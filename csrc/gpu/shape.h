// Which shape a kernel is launched in: threads, lanes and blocks, from the trip counts of one entry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gpu/codegen.h"
#include "gpu/device.h"
#include "gpu/host_part.h"
#include "ir/ir.h"

namespace appy::gpu {

/// What the host's part of a region said for one entry.
class Sizes {
 public:
  Sizes(const HostPart& part, const ir::Word* words) : part_(part), words_(words) {}

  int64_t at(int word, int64_t unknown) const {
    return word < 0 ? unknown : static_cast<int64_t>(words_[static_cast<size_t>(word)]);
  }
  int64_t product(const std::vector<int>& words, int64_t unknown) const;
  /// Elements of an array, at most.
  int64_t elements(const ArraySize&) const;
  const HostPart& part() const { return part_; }

 private:
  const HostPart& part_;
  const ir::Word* words_;
};

/// What is not chosen from trip counts; 0 where it is.
struct Wish {
  int block = 0, lanes = 0, columns = 0, unroll = 0;
  int march = 0;               // 1 wherever it can be, 2 nowhere
  int piece = 0;               // 1 for none
  std::optional<int> tiles;    // the TileSize of all products
  int boxes = 0;               // 2: no loops over time around rows and columns go in boxes; the graph says it
  int given = 0;               // sums by a library: 1 wherever it takes the operands, 2 nowhere
  int per_multiprocessor = 0;  // blocks at most, for each of the device
  int64_t blocks = 0;          // as far as they are resident together where they have to be
  friend auto operator<=>(const Wish&, const Wish&) = default;

  /// "block=256,lanes=32,columns=16,unroll=4,march=2,piece=16,tiles=2,boxes=2,given=2,per_multiprocessor=8", or some of
  /// these: what text() gives.
  static Wish of_text(const char*);
  std::string text() const;
  /// APPY_CUDA_SHAPE, as of_text() reads it, and APPY_CUDA_BLOCKS.
  static Wish of_environment();
  void grant(KernelShape&) const;
};

/// APPY_CUDA_DELAYS: a number, or empty.
std::string delays_of_environment();

/// APPY_CUDA_LINES: does machine code carry the lines of the source?
bool lines_of_environment();

/// KernelShape::tiles with this size for each nest.
uint64_t tiles_everywhere(TileSize);

/// For the kernel whose code that is, in whichever shape. `given`: the nest whose sums a library computes, or -1.
KernelShape shape_for(const Sizes&, const KernelCode&, const Properties&, const Wish&, int given);

/// Blocks that the nests have use for.
int64_t blocks_for(const Sizes&, const KernelShape&);

/// So many rows of a column a thread has at most, up to the next power of two, where they may all be in flight; else 0.
int rows_of_columns(const Sizes&, const KernelShape&);

/// Is no byte of an array 2^31 or more away from its first element? `args` are the graph's argument words.
bool is_narrow(const ir::Graph&, const ir::Word* args, const Sizes&);

/// Do the rows of all arrays begin so many bytes apart that all are aligned to pieces where the first one is?
bool has_rows_of_pieces(const ir::Graph&, const ir::Word* args, int piece);

/// Where in shared memory the arrays lie that each worker of a block has for itself, from `begin` on: one offset an
/// array, which counts for no other array, and the end.
std::vector<size_t> shared_offsets(const Sizes&, std::span<const ArrayUse>, const KernelShape&, size_t begin);

/// Bytes of one array for all workers of a block, or all that `owners` own.
size_t bytes_of(const Sizes&, const ArrayUse&, const ArraySize&, int64_t owners);

}  // namespace appy::gpu
