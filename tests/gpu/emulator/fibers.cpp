#include "fibers.h"

#include <sys/mman.h>

#include <bit>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <random>
#include <vector>

// Saves the registers that a call keeps, on the stack that it leaves, and takes those of the other one.
asm(R"(
  .text
  .type appy_emulator_switch, @function
appy_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size appy_emulator_switch, .-appy_emulator_switch
)");
extern "C" void appy_emulator_switch(void** save, void* load);

namespace appy_emulator {

namespace {

constexpr int kLaunchFailed = 719, kTimeout = 702;
constexpr size_t kStack = size_t{128} << 10;
constexpr size_t kCanary = 64;
constexpr unsigned char kPoison = 0xa5;

struct Fiber;
struct Block;

/// Lanes that wait for each other: one for each mask in use.
struct Group {
  unsigned mask = 0;
  unsigned arrived = 0;
  uint64_t values[32] = {};
  uint64_t done[32] = {};  // of the last complete exchange; all have read it before the next one completes
  std::vector<Fiber*> waiting;
};

struct Warp {
  unsigned live = 0;     // lanes that have not returned
  unsigned blocked = 0;  // of these, who waits for others
  unsigned active = 0;   // who waits in active()
  std::vector<Fiber*> together;
  std::deque<Group> groups;
};

struct Block {
  std::vector<unsigned char> shared;
  std::vector<Warp> warps;
  size_t live = 0, arrived = 0;
  Votes votes{0, 1, 0}, result{};
  std::vector<Fiber*> waiting;
};

struct Fiber : Thread {
  Block* of = nullptr;
  Warp* warp = nullptr;
  void* stack_pointer = nullptr;
  unsigned active = 0;
  bool finished = false;
};

struct Scheduler {
  std::deque<Fiber*> ready;
  void* stack_pointer = nullptr;
  Thread* current = nullptr;
  Kernel kernel = nullptr;
  void** arguments = nullptr;
  bool random = false, depth = false;
  std::mt19937_64 generator;
  int error = 0;
  std::string why;
  std::chrono::steady_clock::time_point deadline;
  unsigned long pauses = 0;
};

Scheduler scheduler;  // launches are run one at a time

Fiber& self() { return static_cast<Fiber&>(*scheduler.current); }

void leave() { appy_emulator_switch(&self().stack_pointer, scheduler.stack_pointer); }

void wake(std::vector<Fiber*>& waiting) {
  for (Fiber* fiber : waiting) fiber->warp->blocked &= ~(1u << fiber->lane);
  scheduler.ready.insert(scheduler.ready.end(), waiting.begin(), waiting.end());
  waiting.clear();
}

void complete_barrier(Block& block) {
  if (block.live == 0 || block.arrived < block.live) return;
  block.result = block.votes;
  block.votes = {0, 1, 0};
  block.arrived = 0;
  wake(block.waiting);
}

void complete_group(Warp& warp, Group& group) {
  const unsigned needed = group.mask & warp.live;
  if (needed == 0 || (group.arrived & needed) != needed) return;
  std::memcpy(group.done, group.values, sizeof group.done);
  group.arrived = 0;
  wake(group.waiting);
}

/// Lets go who waits in active(), once no other lane of the warp can come there.
void release_active(Warp& warp, bool now = false) {
  if (!now && (warp.active | warp.blocked) != (warp.live | warp.blocked)) return;
  for (Fiber* fiber : warp.together) fiber->active = warp.active;
  warp.active = 0;
  wake(warp.together);
}

/// Waits for other lanes, or warps, where it has not been woken yet.
void leave_blocked() {
  release_active(*self().warp);
  leave();
}

void fail(int error, const std::string& why) {
  if (scheduler.error == 0) {
    scheduler.error = error;
    scheduler.why = why;
  }
}

void run_fiber() {
  scheduler.kernel(scheduler.arguments);
  Fiber& fiber = self();
  fiber.finished = true;
  // The others no longer wait for this one.
  --fiber.of->live;
  complete_barrier(*fiber.of);
  fiber.warp->live &= ~(1u << fiber.lane);
  for (Group& group : fiber.warp->groups) complete_group(*fiber.warp, group);
  release_active(*fiber.warp);
  leave();
  std::abort();  // a finished fiber is never resumed
}

Votes barrier(int predicate) {
  Fiber& fiber = self();
  Block& block = *fiber.of;
  block.votes.any |= predicate != 0;
  block.votes.all &= predicate != 0;
  block.votes.count += predicate != 0;
  ++block.arrived;
  block.waiting.push_back(&fiber);
  fiber.warp->blocked |= 1u << fiber.lane;
  complete_barrier(block);
  leave_blocked();
  return block.result;
}

const uint64_t* exchange(unsigned mask, uint64_t value) {
  Fiber& fiber = self();
  if (!(mask >> fiber.lane & 1)) {
    fail(kLaunchFailed,
         "lane " + std::to_string(fiber.lane) + " takes part in an operation of a warp but not in its mask");
    leave();
  }
  Group* group = nullptr;
  for (Group& one : fiber.warp->groups) {
    if (one.mask == mask) group = &one;
  }
  if (!group) {
    group = &fiber.warp->groups.emplace_back();
    group->mask = mask;
  }
  group->values[fiber.lane] = value;
  group->arrived |= 1u << fiber.lane;
  group->waiting.push_back(&fiber);
  fiber.warp->blocked |= 1u << fiber.lane;
  complete_group(*fiber.warp, *group);
  leave_blocked();
  return group->done;
}

unsigned active() {
  Fiber& fiber = self();
  fiber.warp->active |= 1u << fiber.lane;
  fiber.warp->together.push_back(&fiber);
  release_active(*fiber.warp);
  leave();
  return fiber.active;
}

void pause_fiber() {
  release_active(*self().warp, true);
  scheduler.depth ? scheduler.ready.push_front(&self()) : scheduler.ready.push_back(&self());
  if (++scheduler.pauses % 65536 == 0 && std::chrono::steady_clock::now() > scheduler.deadline)
    fail(kTimeout, "threads still wait for each other after a minute");
  leave();
}

void trap() {
  fail(kLaunchFailed, "__trap()");
  leave();
}

/// Stacks are kept: making them takes longer than most kernels.
char* stacks(size_t count) {
  static char* memory = nullptr;
  static size_t have = 0;
  if (count > have) {
    if (memory) munmap(memory, have * kStack);
    void* made =
        mmap(nullptr, count * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    memory = made == MAP_FAILED ? nullptr : static_cast<char*>(made);
    have = memory ? count : 0;
  }
  return memory;
}

Fiber* next_fiber() {
  if (scheduler.ready.empty()) return nullptr;
  if (scheduler.random)
    std::swap(scheduler.ready.front(), scheduler.ready[scheduler.generator() % scheduler.ready.size()]);
  Fiber* fiber = scheduler.depth ? scheduler.ready.back() : scheduler.ready.front();
  scheduler.depth ? scheduler.ready.pop_back() : scheduler.ready.pop_front();
  return fiber;
}

/// Runs these blocks together.
void run_blocks(const Grid& grid, const std::vector<size_t>& numbers, bool reverse) {
  const size_t per_block = size_t{grid.threads[0]} * grid.threads[1] * grid.threads[2];
  std::vector<Block> blocks(numbers.size());
  std::vector<Fiber> fibers(numbers.size() * per_block);
  char* const memory = stacks(fibers.size());
  if (!memory) return fail(kLaunchFailed, "no memory for stacks");
  for (size_t b = 0; b < blocks.size(); ++b) {
    Block& block = blocks[b];
    block.shared.assign(grid.shared_bytes + kCanary + 256, kPoison);
    block.warps.resize((per_block + 31) / 32);
    block.live = per_block;
    auto* shared =
        reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(block.shared.data()) + 127) & ~uintptr_t{127});
    for (size_t t = 0; t < per_block; ++t) {
      Fiber& fiber = fibers[b * per_block + t];
      const size_t in_layer = size_t{grid.threads[0]} * grid.threads[1];
      fiber.thread[0] = static_cast<unsigned>(t % grid.threads[0]);
      fiber.thread[1] = static_cast<unsigned>(t % in_layer / grid.threads[0]);
      fiber.thread[2] = static_cast<unsigned>(t / in_layer);
      const size_t number = numbers[b], layer = size_t{grid.blocks[0]} * grid.blocks[1];
      fiber.block[0] = static_cast<unsigned>(number % grid.blocks[0]);
      fiber.block[1] = static_cast<unsigned>(number % layer / grid.blocks[0]);
      fiber.block[2] = static_cast<unsigned>(number / layer);
      std::memcpy(fiber.block_size, grid.threads, sizeof fiber.block_size);
      std::memcpy(fiber.grid_size, grid.blocks, sizeof fiber.grid_size);
      fiber.lane = static_cast<unsigned>(t % 32);
      fiber.shared = shared;
      fiber.of = &block;
      fiber.warp = &block.warps[t / 32];
      fiber.warp->live |= 1u << fiber.lane;
      // As if run_fiber had been called: six registers, the return address, and a word that keeps the alignment.
      void** top = reinterpret_cast<void**>(memory + (b * per_block + t + 1) * kStack) - 2;
      *top = reinterpret_cast<void*>(&run_fiber);
      fiber.stack_pointer = top - 6;
      std::memset(fiber.stack_pointer, 0, 6 * sizeof(void*));
    }
  }
  for (size_t i = 0; i < fibers.size(); ++i) scheduler.ready.push_back(&fibers[reverse ? fibers.size() - 1 - i : i]);
  size_t finished = 0;
  while (scheduler.error == 0) {
    Fiber* fiber = next_fiber();
    if (!fiber) break;
    scheduler.current = fiber;
    appy_emulator_switch(&scheduler.stack_pointer, fiber->stack_pointer);
    finished += fiber->finished;
  }
  scheduler.ready.clear();
  scheduler.current = nullptr;
  if (scheduler.error == 0 && finished < fibers.size()) {
    fail(kLaunchFailed, std::to_string(fibers.size() - finished) + " of " + std::to_string(fibers.size()) +
                            " threads wait at a barrier that the others do not reach");
  }
  for (const Block& block : blocks) {
    const unsigned char* shared = fibers[static_cast<size_t>(&block - blocks.data()) * per_block].shared;
    for (size_t i = 0; i < kCanary; ++i) {
      if (shared[grid.shared_bytes + i] != kPoison)
        return fail(kLaunchFailed, "a store behind the end of shared memory");
    }
  }
}

}  // namespace

int run_grid(const Grid& grid, Kernel kernel, void** arguments, std::string& why) {
  const char* order = std::getenv("APPY_EMULATOR_ORDER");
  const std::string name = order ? order : "";
  const bool reverse = name == "reverse";
  scheduler.depth = name == "depth";
  scheduler.random = !name.empty() && name != "reverse" && name != "forward" && !scheduler.depth;
  if (scheduler.random) scheduler.generator.seed(std::strtoull(name.c_str(), nullptr, 10));
  scheduler.kernel = kernel;
  scheduler.arguments = arguments;
  scheduler.error = 0;
  scheduler.why.clear();
  scheduler.pauses = 0;
  scheduler.deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  const size_t count = size_t{grid.blocks[0]} * grid.blocks[1] * grid.blocks[2];
  std::vector<size_t> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = reverse ? count - 1 - i : i;
  if (grid.cooperative) {
    run_blocks(grid, numbers, reverse);
  } else {
    for (size_t i = 0; i < count && scheduler.error == 0; ++i) run_blocks(grid, {numbers[i]}, reverse);
  }
  why = scheduler.why;
  return scheduler.error;
}

const Api* api() {
  static const Api only{&scheduler.current, barrier, exchange, active, pause_fiber, trap};
  return &only;
}

}  // namespace appy_emulator
