#include "gpu/shape.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "gpu/tiling.h"

namespace appy::gpu {

using ir::Mapping;
using ir::Word;

namespace {

/// Iterations of a loop whose count nobody knows before it runs.
constexpr int64_t unknown_trips = int64_t{1} << 20;

/// Rows of a column that a thread has in flight, at most.
constexpr int kMostRows = 8;

/// Bytes of the widest access that a thread has.
constexpr int kPiece = 16;

int power_of_two_up_to(int64_t n, int most) {
  int p = 1;
  while (p < most && p < n) p *= 2;
  return p;
}

/// The most iterations that lanes inside the nest have, or as many as `unknown` says where nobody knows.
int64_t longest_lanes(const Sizes& sizes, const NestSize& nest, int64_t unknown) {
  int64_t longest = 1;
  for (int word : nest.lane_trips) longest = std::max(longest, sizes.at(word, unknown));
  return longest;
}

/// Few columns of long sums leave most of the device idle: larger blocks divide each sum among more threads, as long as
/// these have some iterations each; where all wait for the sums one is enough. 1000 sums of a million elements take 125
/// blocks. Where all wait again and again, to add up what many threads have takes longer than it saves; but where
/// columns are changed by their sums a thread has few rows: H200, a Gram-Schmidt process of 600 x 500 takes 6.4 ms in
/// blocks of 256 threads and 4.1 of 512.
int block_for_columns(const Sizes& sizes, const KernelShape& shape, const KernelCode& code, const Properties& device) {
  const int64_t least_iterations = code.leaves ? 16 : code.meets ? 1 : 8;
  const int64_t resident = int64_t{device.multiprocessors} * device.max_threads_per_multiprocessor;
  int block = shape.block;
  for (const NestSize& nest : sizes.part().nests) {
    if (nest.mapping != Mapping::columns) continue;
    const int64_t columns = sizes.product(nest.trips, unknown_trips), longest = longest_lanes(sizes, nest, 1);
    const int64_t blocks = (columns + shape.columns - 1) / shape.columns;
    const bool changed = code.leaves && nest.lane_trips.size() > 1;
    const auto many = [&] { return changed && block <= 256 && longest > kMostRows * (block / shape.columns); };
    while (2 * block <= device.max_threads_per_block && 2 * blocks * block <= resident &&
           (longest >= least_iterations * (2 * block / shape.columns) || many())) {
      block *= 2;
    }
  }
  return block;
}

/// Columns that are stored, too, as they are summed: no less than a line of memory a row, and columns and threads of
/// blocks such that the device is full in each round, also the last one. H200, a matrix that is updated, summed down
/// its columns and multiplied by a vector: 8000 x 8000 in 0.43 ms with 250 blocks of 32 columns and 512 threads, 0.47
/// with 500 of 16 and 256, 0.75 with 8 columns; 10000 x 10000 in 0.93 with 313 blocks of 32 and 512, of which 264 are
/// resident, and 0.69 with 625 of 16 and 256.
void fill_with_columns(KernelShape& shape, const Sizes& sizes, const NestSize& nest, const Properties& device) {
  constexpr int line = 128, most_columns = 32, least_iterations = 8;
  // Those whose registers a multiprocessor has: four rows of each are under way.
  const int threads = device.max_threads_per_multiprocessor / 8 * 5;
  const int64_t columns = sizes.product(nest.trips, unknown_trips), longest = longest_lanes(sizes, nest, 1);
  int64_t most = 0;
  for (int across = most_columns; across == most_columns || across * nest.stored_bytes >= line; across /= 2) {
    const int64_t blocks = std::max<int64_t>((columns + across - 1) / across, 1);
    for (int block = 256; block <= std::min(device.max_threads_per_block, threads); block *= 2) {
      if (block > 256 && longest < int64_t{least_iterations} * (block / across)) break;
      const int64_t at_once = int64_t{device.multiprocessors} * (threads / block);
      const int64_t rounds = (blocks + at_once - 1) / at_once, busy = blocks * block / rounds;
      if (busy <= most + most / 32) continue;
      most = busy;
      shape.columns = across;
      shape.block = block;
    }
  }
}

/// Of a plane with iterations enough for rows: are there steps enough for what a thread computes before the first one,
/// and rows enough for few of them to be left over?
bool pays_to_march(const Sizes& sizes, const NestSize& nest) {
  constexpr int64_t least_steps = 8, least_rows = 32;
  const size_t rank = nest.trips.size();
  return rank > 2 && sizes.at(nest.trips[rank - 2], 0) >= least_rows &&
         sizes.at(nest.trips[rank - 3], 0) >= least_steps;
}

/// Do workers keep arrays of their own between meetings of all? Not those of tiles of products, or of one block's turn.
bool keeps_arrays(const KernelCode& code, bool tiled) {
  const auto of_worker = [](const ArrayUse& use) { return use.owner == ArrayUse::Owner::worker; };
  return code.meets && !code.in_turn && !tiled && std::any_of(code.arrays.begin(), code.arrays.end(), of_worker);
}

/// Threads of a worker that goes over arrays of its own again and again, a phase after the other: each waits for the
/// latency of as many elements as it has, unless there are others on its multiprocessor. H200, 1000 steps of Jacobi's
/// iteration in boxes, in blocks of 128, 256 and 512 threads: 300 x 300 points 6.8, 4.2 and 2.7 ms, 400 x 400 10.8, 5.9
/// and 3.7, 700 x 700 10.2, 5.9 and 8.5.
int threads_of_keeper(int64_t workers, const Properties& device) {
  return workers <= 2 * int64_t{device.multiprocessors} ? 512 : 256;
}

/// The most iterations that a loop for workers has.
int64_t most_workers(const Sizes& sizes) {
  int64_t most = 1;
  for (const NestSize& nest : sizes.part().nests) {
    if (nest.mapping == Mapping::workers) most = std::max(most, sizes.product(nest.trips, unknown_trips));
  }
  return most;
}

/// How many lanes a worker has: as many as its loops have use for; a block where there are too few workers to fill the
/// device with warps.
KernelShape by_trip_counts(const Sizes& sizes, const KernelCode& code, const Properties& device, int given) {
  KernelShape shape;
  shape.given = given;
  const bool tiled = sizes.part().products.size() > (given < 0 ? 0 : 1);
  int lanes = 1;
  int64_t longest = 1;
  bool any = false, only_threads = true, any_columns = false;
  const int64_t resident = int64_t{device.multiprocessors} * device.max_threads_per_multiprocessor;
  for (const NestSize& nest : sizes.part().nests) {
    only_threads &= nest.mapping == Mapping::threads;
    // Enough for each thread to have several iterations in flight: more where all wait for the last of them again and
    // again. H200, fdtd_2d 8.9 instead of 9.3 ms with five; with eight 11.4. What goes in order has the next step.
    if (nest.mapping == Mapping::threads && sizes.product(nest.trips, 0) >= 4 * resident) {
      shape.march |= pays_to_march(sizes, nest);
      shape.unroll = code.meets && !shape.march ? 5 : 4;
      shape.piece = kPiece;
    }
    if (nest.mapping == Mapping::columns) {
      any_columns = true;
      // At least four blocks for each multiprocessor, and no less than two sectors of memory a row.
      const int64_t columns = sizes.product(nest.trips, unknown_trips);
      while (shape.columns > 8 && columns / shape.columns < 4 * device.multiprocessors) shape.columns /= 2;
    }
    if (nest.mapping != Mapping::workers) continue;
    any = true;
    const int64_t workers = std::max<int64_t>(sizes.product(nest.trips, unknown_trips), 1);
    int64_t along = 1;
    for (int word : nest.lane_trips) {
      int64_t trips = sizes.at(word, -1);
      if (trips < 0) trips = nest.lane_extent >= 0 ? sizes.at(nest.lane_extent, 0) / workers : 256;
      along = std::max(along, trips);
    }
    longest = std::max(longest, along);
    int wanted = power_of_two_up_to(along, 32);
    // Between tiles rows are short: H200, those of a factorisation 5.6 with a warp, 8.1 ms with a block.
    const bool between_tiles = code.in_turn || (code.meets && tiled);
    if (along > 2 * 32 && workers < resident / 32 && !between_tiles) wanted = shape.block;
    lanes = std::max(lanes, wanted);
  }
  shape.lanes = any ? lanes : 1;
  // What is done with the sums of columns, in each step of a loop, is little: with more of it in flight fewer blocks
  // wait for each other. H200, a Gram-Schmidt process of 240 x 200: 1.09 ms in blocks of 256 threads, 1.54 with one row
  // each, 1.41 in blocks of 1024.
  if (any_columns && code.leaves && !tiled && shape.unroll == 1) shape.unroll = 4;
  // Each lane has several elements, of which it takes neighbours.
  if (any && longest >= 4 * shape.lanes) shape.piece = kPiece;
  // Of short rows more are in flight with small blocks; one that has a multiprocessor for itself is better large.
  const int64_t workers = most_workers(sizes);
  const bool alone = workers <= device.multiprocessors && longest > 128;
  if (shape.lanes == shape.block) {
    if (keeps_arrays(code, tiled)) {
      shape.lanes = shape.block = threads_of_keeper(workers, device);
    } else if (longest <= 2048) {
      shape.lanes = shape.block = alone ? 512 : 128;
    }
  }
  if (shape.unroll > 1 && only_threads && !code.meets && !tiled) shape.block = 128;
  // Where one warp works and the others wait there is a block for each multiprocessor. They add to the sums behind the
  // tile, or a group of tiles, meanwhile: the more warps the more of the matrix is under way.
  if (code.in_turn && !tiled && shape.lanes < shape.block) shape.block = 512;
  if (tiled) return shape;
  const std::vector<NestSize>& nests = sizes.part().nests;
  const auto stored = std::find_if(nests.begin(), nests.end(), [](const NestSize& n) { return n.stored_bytes > 0; });
  if (stored != nests.end() && !code.leaves && !code.in_turn) {
    const bool whole = shape.lanes == shape.block;
    fill_with_columns(shape, sizes, *stored, device);
    if (whole) shape.lanes = shape.block;
  } else if (shape.lanes < shape.block) {
    // A worker that is a block has been given its lanes above.
    shape.block = block_for_columns(sizes, shape, code, device);
  }
  return shape;
}

/// How many tiles that is.
int64_t tiles_of(const Sizes& sizes, const ProductSize& product, const KernelShape& shape, TileSize size) {
  const Tiling tiling = tiling_of(product.product, size, shape.block, shape.shared);
  const int64_t rows = sizes.at(product.rows, 0), columns = sizes.at(product.columns, 0);
  const int64_t down = (rows + tiling.rows - 1) / tiling.rows, across = (columns + tiling.columns - 1) / tiling.columns;
  const int64_t all = std::max<int64_t>(down, 0) * std::max<int64_t>(across, 0) * sizes.product(product.repeats, 1);
  if (product.product.rectangular || down < 1) return all;
  // A triangle with the tiles of its diagonal, and what rows there are beyond it.
  return all - all / 2 * std::min(columns, rows) / rows + std::min(across, down) / 2;
}

/// Tiles pay where there are enough to keep the multiprocessors busy, and enough steps for what is shared to be used.
TileSize tile_size_for(const Sizes& sizes, const ProductSize& product, const KernelShape& shape,
                       const Properties& device) {
  constexpr int64_t least = 16;
  if (sizes.at(product.rows, 0) < least || sizes.at(product.columns, 0) < least) return TileSize::none;
  if (sizes.at(product.steps, least) < least) return TileSize::none;
  // A large tile takes more steps to pay for its beginning and end: H200, 64 steps of a factorisation's rest, 14.3
  // against 9.1 ms.
  constexpr int64_t many = 128;
  const auto fits = [&](TileSize size) {
    const auto most = static_cast<size_t>(device.shared_bytes_per_block_opt_in);
    return tiling_of(product.product, size, shape.block, shape.shared).shared_bytes <= most;
  };
  const int64_t large = tiles_of(sizes, product, shape, TileSize::large),
                small = tiles_of(sizes, product, shape, TileSize::small), all = device.multiprocessors;
  const bool both = sizes.at(product.steps, 0) >= many && fits(TileSize::large);
  if (tiling_of(product.product, TileSize::large, shape.block, shape.shared).tensor) {
    // The multiprocessor with most tiles keeps the others waiting; the last one of an odd number it computes alone,
    // when nobody works while that one waits for memory. A large tile reads less.
    const auto time = [&](TileSize size, int64_t tiles) {
      const Tiling tiling = tiling_of(product.product, size, shape.block, shape.shared);
      const int64_t most = (tiles + all - 1) / all;
      return (3 * most + 2 * (most % 2)) * tiling.rows * tiling.columns;
    };
    if (both && large >= all / 2 && 20 * time(TileSize::large, large) <= 21 * time(TileSize::small, small))
      return TileSize::large;
  } else if (both && large >= all) {
    return TileSize::large;
  }
  if (2 * small < all && fits(TileSize::least)) {
    const int64_t least_tiles = tiles_of(sizes, product, shape, TileSize::least);
    if (least_tiles > small && least_tiles >= all / 4) return TileSize::least;
  }
  return small >= all / 4 && fits(TileSize::small) ? TileSize::small : TileSize::none;
}

/// Of the tiles of products.
size_t tile_bytes(const Sizes& sizes, const KernelShape& shape) {
  const std::vector<ProductSize>& products = sizes.part().products;
  size_t bytes = 0;
  for (size_t k = 0; k < products.size() && k < 32; ++k) {
    const TileSize size = shape.tile_size(k);
    if (size != TileSize::none)
      bytes = std::max(bytes, tiling_of(products[k].product, size, shape.block, shape.shared).shared_bytes);
  }
  return bytes;
}

}  // namespace

int64_t Sizes::product(const std::vector<int>& words, int64_t unknown) const {
  int64_t n = 1;
  for (int word : words) n = std::min(n * std::max<int64_t>(at(word, unknown), 0), int64_t{1} << 40);
  return n;
}

int64_t Sizes::elements(const ArraySize& array) const {
  int64_t n = 1;
  for (int word : array.most) n *= std::max<int64_t>(at(word, 0), 0);
  return n;
}

namespace {

constexpr std::pair<const char*, int Wish::*> members[] = {
    {"block", &Wish::block},   {"lanes", &Wish::lanes}, {"columns", &Wish::columns},
    {"unroll", &Wish::unroll}, {"march", &Wish::march}, {"piece", &Wish::piece},
    {"boxes", &Wish::boxes},   {"given", &Wish::given}, {"per_multiprocessor", &Wish::per_multiprocessor}};

}  // namespace

Wish Wish::of_text(const char* text) {
  Wish wish;
  for (const auto& [name, member] : members) {
    const std::string word = std::string(name) + "=";
    const char* at = std::strstr(text, word.c_str());
    if (at) wish.*member = std::atoi(at + word.size());
  }
  if (const char* at = std::strstr(text, "tiles=")) wish.tiles = std::clamp(std::atoi(at + 6), 0, 3);
  return wish;
}

std::string Wish::text() const {
  std::string out;
  for (const auto& [name, member] : members) {
    if (this->*member) out += (out.empty() ? "" : ",") + std::string(name) + "=" + std::to_string(this->*member);
  }
  if (tiles) out += (out.empty() ? "tiles=" : ",tiles=") + std::to_string(*tiles);
  return out;
}

Wish Wish::of_environment() {
  const char* shape = std::getenv("APPY_CUDA_SHAPE");
  Wish wish = of_text(shape ? shape : "");
  const char* blocks = std::getenv("APPY_CUDA_BLOCKS");
  if (blocks) wish.blocks = std::max<int64_t>(std::atoll(blocks), 0);
  return wish;
}

std::string delays_of_environment() {
  const char* text = std::getenv("APPY_CUDA_DELAYS");
  return text && *text ? std::to_string(std::strtoull(text, nullptr, 10)) : "";
}

bool lines_of_environment() {
  const char* text = std::getenv("APPY_CUDA_LINES");
  return text && *text && std::strcmp(text, "0") != 0;
}

size_t bytes_of(const Sizes& sizes, const ArrayUse& use, const ArraySize& array, int64_t owners) {
  return static_cast<size_t>(std::max<int64_t>(sizes.elements(array), 1) * owners) *
         static_cast<size_t>(ir::size_of(use.alloc->result()->type.dtype));
}

std::vector<size_t> shared_offsets(const Sizes& sizes, std::span<const ArrayUse> arrays, const KernelShape& shape,
                                   size_t begin) {
  std::vector<size_t> out;
  for (size_t k = 0; k < arrays.size(); ++k) {
    const bool of_workers = arrays[k].owner == ArrayUse::Owner::worker;
    const bool shared = of_workers || arrays[k].owner == ArrayUse::Owner::block;
    if (shared) begin = (begin + 15) / 16 * 16;
    out.push_back(begin);
    const int owners = of_workers ? shape.block / shape.lanes : 1;
    if (shared) begin += bytes_of(sizes, arrays[k], sizes.part().arrays[k], owners);
  }
  out.push_back(begin);
  return out;
}

uint64_t tiles_everywhere(TileSize size) { return static_cast<uint64_t>(size) * 0x5555555555555555; }

void Wish::grant(KernelShape& shape) const {
  const bool whole = shape.lanes == shape.block;
  if (block) shape.block = block;
  if (lanes) shape.lanes = lanes;
  if (columns) shape.columns = std::min(columns, 32);  // they share a warp
  if (unroll) shape.unroll = unroll;
  if (march) shape.march = march == 1;
  if (piece) shape.piece = piece == kPiece ? kPiece : 0;
  if (tiles) shape.tiles = tiles_everywhere(static_cast<TileSize>(*tiles));
  // A worker is a part of a warp, or a block.
  if (shape.lanes > 32 && (whole || lanes)) shape.lanes = shape.block;
  shape.lanes = std::min(shape.lanes, shape.block);
}

namespace {

/// Of arrays that one block has.
size_t bytes_of_one_block(const Sizes& sizes, std::span<const ArrayUse> arrays) {
  size_t bytes = 0;
  for (size_t k = 0; k < arrays.size(); ++k) {
    if (arrays[k].owner == ArrayUse::Owner::block) bytes += bytes_of(sizes, arrays[k], sizes.part().arrays[k], 1);
  }
  return bytes;
}

}  // namespace

KernelShape shape_for(const Sizes& sizes, const KernelCode& code, const Properties& device, const Wish& wish,
                      int given) {
  const std::span<const ArrayUse> arrays = code.arrays;
  KernelShape shape = by_trip_counts(sizes, code, device, given);
  wish.grant(shape);
  const std::vector<ProductSize>& products = sizes.part().products;
  const auto choose_tiles = [&] {
    for (size_t k = 0; !wish.tiles && k < products.size() && k < 32; ++k) {
      if (static_cast<int>(k) != given)
        shape.tiles |= static_cast<uint64_t>(tile_size_for(sizes, products[k], shape, device)) << (2 * k);
    }
  };
  choose_tiles();
  // Blocks are for the tiles, if there are any, and not for what workers would do instead of them.
  const int usual = KernelShape().block;
  if (shape.tiles && shape.block != usual && !wish.block) {
    shape.lanes = shape.lanes == shape.block && !wish.lanes ? usual : std::min(shape.lanes, usual);
    shape.block = usual;
    if (!wish.tiles) shape.tiles = 0;
    choose_tiles();
  }
  for (const int lanes : {shape.lanes, wish.lanes ? shape.lanes : shape.block}) {
    KernelShape with_shared = shape;
    with_shared.lanes = lanes;
    if (lanes == shape.block && shape.lanes != shape.block && !wish.block) {
      const bool keeps = keeps_arrays(code, shape.tiles != 0);
      with_shared.lanes = with_shared.block = keeps ? threads_of_keeper(most_workers(sizes), device) : 128;
    }
    with_shared.shared = true;
    const size_t bytes = shared_offsets(sizes, arrays, with_shared, 0).back();
    if (bytes == 0) return shape;
    // Beside what only one block needs, half of what a multiprocessor has for eight; or all that a block may have.
    // What reductions need is less than 8192.
    const auto all = static_cast<size_t>(device.shared_bytes_per_block_opt_in);
    const size_t most = all - std::min(std::max<size_t>(tile_bytes(sizes, with_shared), 8192), all);
    const size_t few = static_cast<size_t>(device.shared_bytes_per_block / 2) + bytes_of_one_block(sizes, arrays);
    if (bytes <= (lanes == shape.block || wish.lanes ? most : std::min(few, most))) return with_shared;
  }
  return shape;
}

/// Threads of a block along the last dimension of a plane, `x` wide: what plane_of in the prelude computes.
int threads_across(int64_t x, int block) {
  int across = power_of_two_up_to(x, block);
  for (int fewer = across / 2; fewer >= 32; fewer /= 2) {
    if ((x + fewer - 1) / fewer * fewer < (x + across - 1) / across * across) across = fewer;
  }
  return across;
}

int64_t blocks_for(const Sizes& sizes, const KernelShape& shape) {
  int64_t most = 1;
  for (const NestSize& nest : sizes.part().nests) {
    int64_t threads = sizes.product(nest.trips, unknown_trips);
    if (nest.mapping == Mapping::workers) {
      threads *= shape.lanes;
    } else if (nest.mapping == Mapping::columns) {
      threads = (threads + shape.columns - 1) / shape.columns * shape.block;
    } else if (nest.trips.size() > 1) {
      // Columns of the plane are whole blocks, or divide one.
      const int64_t x = std::max<int64_t>(sizes.at(nest.trips.back(), 32), 1);
      const int across = threads_across(x, shape.block);
      threads = threads / x * ((x + across - 1) / across) * across;
    }
    if (nest.mapping == Mapping::threads) threads = (threads + shape.unroll - 1) / shape.unroll;
    most = std::max(most, (threads + shape.block - 1) / shape.block);
  }
  const std::vector<ProductSize>& products = sizes.part().products;
  for (size_t k = 0; k < products.size() && k < 32; ++k) {
    const TileSize size = shape.tile_size(k);
    if (size != TileSize::none) most = std::max(most, tiles_of(sizes, products[k], shape, size));
    // Given sums: 32 x 32 elements a block.
    if (static_cast<int>(k) == shape.given && !shape.stored)
      most = std::max(most, (sizes.at(products[k].rows, 0) + 31) / 32 * ((sizes.at(products[k].columns, 0) + 31) / 32));
  }
  return most;
}

int rows_of_columns(const Sizes& sizes, const KernelShape& shape) {
  const int64_t threads = std::max(shape.block / shape.columns, 1);
  int64_t longest = 0;
  for (const NestSize& nest : sizes.part().nests) {
    if (nest.mapping == Mapping::columns && nest.lane_trips.size() > 1)
      longest = std::max(longest, longest_lanes(sizes, nest, unknown_trips));
  }
  if (longest == 0 || longest > kMostRows * threads) return 0;
  return power_of_two_up_to((longest + threads - 1) / threads, kMostRows);
}

bool is_narrow(const ir::Graph& graph, const Word* args, const Sizes& sizes) {
  constexpr int64_t limit = int64_t{1} << 31;
  for (const ir::Value* v : graph.body->args) {
    const Word* const words = args;
    args += ir::words_of(v->type);
    if (!v->type.is_view()) continue;
    int64_t bytes = ir::size_of(v->type.dtype);
    for (int d = 0; d < v->type.rank; ++d) {
      const auto extent = static_cast<int64_t>(words[1 + d]),
                 stride = static_cast<int64_t>(words[1 + v->type.rank + d]);
      if (extent >= limit || std::abs(stride) >= limit) return false;
      bytes += std::max<int64_t>(extent - 1, 0) * std::abs(stride);
      if (bytes >= limit) return false;
    }
  }
  return std::all_of(sizes.part().arrays.begin(), sizes.part().arrays.end(), [&](const ArraySize& array) {
    return sizes.elements(array) * ir::size_of(array.alloc->result()->type.dtype) < limit;
  });
}

bool has_rows_of_pieces(const ir::Graph& graph, const Word* args, int piece) {
  for (const ir::Value* v : graph.body->args) {
    const Word* const words = args;
    args += ir::words_of(v->type);
    for (int d = 0; v->type.is_view() && d < v->type.rank; ++d) {
      const auto stride = static_cast<int64_t>(words[1 + v->type.rank + d]);
      if (stride % piece != 0 && stride != ir::size_of(v->type.dtype)) return false;
    }
  }
  return true;
}

}  // namespace appy::gpu
