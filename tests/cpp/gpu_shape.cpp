// Shapes of kernels by trip counts, for a device like the H200.
#include <gtest/gtest.h>

#include "gpu/shape.h"
#include "ir/builder.h"

namespace appy::gpu {
namespace {

Properties like_h200() {
  Properties device;
  device.multiprocessors = 132;
  device.max_threads_per_block = 1024;
  device.max_threads_per_multiprocessor = 2048;
  device.shared_bytes_per_block = 48 << 10;
  device.shared_bytes_per_block_opt_in = 227 << 10;
  device.shared_bytes_per_multiprocessor = 228 << 10;
  return device;
}

/// So many columns of so many rows, whose elements of so many bytes are stored as they are summed, if any.
KernelShape shape_of_columns(ir::Word columns, ir::Word rows, int stored_bytes, bool leaves = false) {
  HostPart part;
  part.nests = {{ir::Mapping::columns, {0}, {1}, -1, stored_bytes}};
  const ir::Word words[] = {columns, rows};
  KernelCode code;
  code.meets = true;
  code.leaves = leaves;
  return shape_for(Sizes(part, words), code, like_h200(), Wish(), -1);
}

TEST(Shape, ColumnsThatAreStoredFillTheDeviceInEachRound) {
  const struct {
    ir::Word columns;
    int across, block;
  } cases[] = {{2000, 16, 1024}, {4000, 32, 1024}, {8000, 32, 512}, {10000, 16, 256}, {12000, 32, 1024}};
  for (const auto& [columns, across, block] : cases) {
    const KernelShape shape = shape_of_columns(columns, columns, 8);
    EXPECT_EQ(shape.columns, across) << columns;
    EXPECT_EQ(shape.block, block) << columns;
  }
}

TEST(Shape, RowsOfStoredColumnsAreLinesOfMemory) {
  EXPECT_EQ(shape_of_columns(1000, 100000, 8).columns, 16);
  EXPECT_EQ(shape_of_columns(1000, 100000, 4).columns, 32);
  EXPECT_EQ(shape_of_columns(1000, 100000, 1).columns, 32);
  EXPECT_EQ(shape_of_columns(1000, 100000, 16).columns, 8);
  EXPECT_EQ(shape_of_columns(1000, 100000, 0).columns, 8) << "none is stored";
}

TEST(Shape, StoredColumnsOfFewRowsHaveSmallBlocks) {
  EXPECT_EQ(shape_of_columns(2000, 60, 8).block, 256);
  EXPECT_EQ(shape_of_columns(2000, 0, 8).block, 256);
}

TEST(Shape, ColumnsOfEachStepOfALoopKeepFewRows) {
  EXPECT_EQ(shape_of_columns(2000, 2000, 8, true).columns, shape_of_columns(2000, 2000, 0, true).columns);
}

/// So many workers that have two arrays of so many float64 each, which they go over between meetings of all.
KernelShape shape_of_boxes(ir::Word boxes, ir::Word elements) {
  ir::Graph graph;
  ir::Builder builder(graph);
  ir::Type type;
  type.dtype = ir::DType::f64_;
  type.rank = 1;
  type.layout = ir::Layout::c;
  const ir::Op* alloc = builder.alloc(type, std::vector<ir::Value*>{builder.i64(1)})->op;
  HostPart part;
  part.nests = {{ir::Mapping::workers, {0}, {1}, -1, 0}};
  ArraySize size;
  size.most = {1};
  part.arrays = {size, size};
  const ir::Word words[] = {boxes, elements};
  KernelCode code;
  code.meets = true;
  code.arrays = {{alloc, ArrayOwner::worker}, {alloc, ArrayOwner::worker}};
  return shape_for(Sizes(part, words), code, like_h200(), Wish(), -1);
}

TEST(Shape, BoxesHaveMoreThreadsWhereTheyAreFew) {
  const struct {
    ir::Word boxes;
    int block;
  } cases[] = {{45, 512}, {132, 512}, {264, 512}, {276, 256}, {450, 256}, {20000, 256}};
  for (const auto& [boxes, block] : cases) {
    for (const ir::Word elements : {1024, 2304}) {
      const KernelShape shape = shape_of_boxes(boxes, elements);
      EXPECT_TRUE(shape.shared);
      EXPECT_EQ(shape.block, block) << boxes << " of " << elements;
      EXPECT_EQ(shape.lanes, block) << boxes << " of " << elements;
    }
  }
}

}  // namespace
}  // namespace appy::gpu
