// Host arrays on a device for the time of one launch. Arrays that overlap in memory share one copy.
#pragma once

#include <vector>

#include "gpu/device.h"
#include "ir/ir.h"

namespace appy::gpu {

class Transfer {
 public:
  Transfer(Device& device, Stream stream) : device_(device), stream_(stream) {}

  /// `words` are an array's argument words (runtime/kernel.h): move_in() puts the device's address in the first.
  void add(ir::Word* words, const ir::Value& array, bool written);
  void move_in();
  /// What was written, when the kernel has finished.
  void move_out();

  struct Move {
    const ir::Value* array;  // the first of those that share the copy
    size_t bytes;
    bool out;
  };
  /// All transfers, those back last.
  std::vector<Move> moves() const;

 private:
  struct Array {
    ir::Word* words;
    const ir::Value* value;
    char *begin, *end;  // of the bytes that its elements lie in
    char* data;
    bool written;
    size_t block = 0;
  };
  struct Block {
    char *begin, *end;
    bool written;
    DeviceMemory memory;
  };

  Device& device_;
  Stream stream_;
  std::vector<Array> arrays_;
  std::vector<Block> blocks_;
};

}  // namespace appy::gpu
