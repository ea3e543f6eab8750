#include "cpu/streams.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <set>
#include <string>

#include "cpu/function.h"

namespace appy::cpu {

namespace {

using ir::Opcode;

const ir::Value* variable(const ir::Op& loop) { return loop.code == Opcode::for_ ? loop.blocks[0]->args[0] : nullptr; }

bool uses(const ir::Op& access, const ir::Value* term) {
  return std::find(access.terms().begin(), access.terms().end(), term) != access.terms().end();
}

/// The loops around a store whose iterations write different elements, innermost first.
std::vector<const ir::Op*> loops_of(const ir::Op& store) {
  std::vector<const ir::Op*> found;
  for (const ir::Op* loop = ir::enclosing_loop(*store.parent); loop; loop = ir::enclosing_loop(*loop->parent)) {
    const ir::Value* v = variable(*loop);
    if (v && uses(store, v)) found.push_back(loop);
  }
  return found;
}

bool inside(const ir::Op& op, const ir::Op& loop) {
  for (const ir::Op* at = ir::enclosing_loop(*op.parent); at; at = ir::enclosing_loop(*at->parent)) {
    if (at == &loop) return true;
  }
  return false;
}

/// Does the access step from element to element along the loop?
bool contiguous(const ir::Op& access, const ir::Value* along) {
  const Form form = address_form(access);
  for (const auto& [term, stride] : form.terms) {
    if (term == along) return stride.constant() && stride.known == ir::size_of(form.view->type.dtype);
  }
  return false;
}

/// What the rest of the region does with the array that is stored to.
enum class Later { never_read, read, soon };

Later use_of(std::span<const ir::Op* const> accesses, const ir::Op& store, const std::vector<const ir::Op*>& loops) {
  Later found = Later::never_read;
  for (const ir::Op* op : accesses) {
    if (op == &store || op->view() != store.view()) continue;
    if (std::any_of(loops.begin(), loops.end(), [&](const ir::Op* l) { return inside(*op, *l); })) return Later::soon;
    if (op->code != Opcode::store_) found = Later::read;
  }
  return found;
}

std::string read_line(const std::string& path) {
  std::string text;
  if (FILE* file = std::fopen(path.c_str(), "r")) {
    char line[256];
    if (std::fgets(line, sizeof line, file)) text = line;
    std::fclose(file);
  }
  return text;
}

}  // namespace

std::vector<const ir::Op*> accesses_of(const ir::Graph& graph) {
  std::vector<const ir::Op*> found;
  ir::walk(*graph.body, [&](const ir::Op& op) {
    if (op.access) found.push_back(&op);
  });
  return found;
}

Stream find_stream(const ir::Graph& graph, std::span<const ir::Op* const> accesses, const ir::Op& simd_loop) {
  Stream stream;
  const ir::Value* along = variable(simd_loop);
  if (!along || graph.may_alias) return stream;
  bool read_later = false;
  int64_t written = 0;
  for (const ir::Op* op = simd_loop.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::store_ || op->operands[0]->type.dtype == ir::DType::bool_) continue;
    if (!contiguous(*op, along)) continue;
    const std::vector<const ir::Op*> loops = loops_of(*op);
    if (!stream.stores.empty() && loops != stream.loops) continue;
    const Later use = use_of(accesses, *op, loops);
    if (use == Later::soon) continue;
    stream.stores.push_back(op);
    stream.loops = loops;
    read_later |= use == Later::read;
    written += ir::size_of(op->operands[0]->type.dtype);
  }
  if (stream.stores.empty()) return stream;
  stream.bytes = written;
  // What is read beside it takes room in the cache, too. But where something of what was written would be found there
  // again, only its own size counts.
  if (read_later) return stream;
  std::set<const ir::Value*> counted;
  for (const ir::Op* op = simd_loop.blocks[0]->first; op; op = op->next) {
    if (op->code != Opcode::load_ || counted.contains(op->view())) continue;
    if (!std::all_of(stream.loops.begin(), stream.loops.end(),
                     [&](const ir::Op* loop) { return uses(*op, variable(*loop)); })) {
      continue;
    }
    counted.insert(op->view());
    stream.bytes += ir::size_of(op->result()->type.dtype);
  }
  return stream;
}

namespace {

/// Bytes of the caches of a level that the threads of this process use, and how many these are.
struct Caches {
  int64_t bytes = 0, count = 0;
};

Caches caches(int level) {
  Caches found;
  cpu_set_t cpus;
  if (sched_getaffinity(0, sizeof cpus, &cpus) != 0) return found;
  std::set<std::string> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &cpus)) continue;
    // Linux has the first level's two caches at 0 and 1, and those behind them in order.
    const std::string folder =
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/cache/index" + std::to_string(level) + "/";
    if (!seen.insert(read_line(folder + "shared_cpu_list")).second) continue;
    long long size = 0;
    char unit = 0;
    if (std::sscanf(read_line(folder + "size").c_str(), "%lld%c", &size, &unit) < 1) continue;
    found.bytes += static_cast<int64_t>(size) << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
    ++found.count;
  }
  return found;
}

}  // namespace

int64_t last_level_cache() {
  static const int64_t found = [] {
    constexpr int64_t kUsual = int64_t{32} << 20;
    const int64_t bytes = caches(3).bytes;
    return bytes > 0 ? bytes : kUsual;
  }();
  return found;
}

int64_t second_level_cache() {
  static const int64_t found = [] {
    const Caches all = caches(2);
    return all.count > 0 ? all.bytes / all.count : 0;
  }();
  return found;
}

x86::Gp Function::worth_streaming(const Stream& stream) {
  const ir::Op* top = root_;
  const ir::Op* simd_loop = ir::enclosing_loop(*stream.stores[0]->parent);
  if (!top) {
    top = simd_loop;
    while (const ir::Op* around = ir::enclosing_loop(*top->parent)) top = around;
  }
  double known = static_cast<double>(stream.bytes);
  std::vector<const ir::Op*> counted;
  for (const ir::Op* loop : stream.loops) {
    const ir::Value *lower = loop->operands[0], *upper = loop->operands[1], *step = loop->operands[2];
    for (const ir::Value* v : {lower, upper}) {
      if (!is_const(v) && !ir::defined_outside(*v, *top->blocks[0])) return {};
    }
    if (!is_const(step) || const_int(step) == 0) return {};
    known /= static_cast<double>(const_int(step));
    if (is_const(lower) && is_const(upper)) {
      known *= static_cast<double>(const_int(upper)) - static_cast<double>(const_int(lower));
    } else {
      counted.push_back(loop);
    }
  }
  const auto least = static_cast<double>(m_.stream_bytes < 0 ? last_level_cache() : m_.stream_bytes);
  if (counted.empty() && known <= least) return {};
  for (const ir::Op* loop : counted) reg(loop->operands[0]), reg(loop->operands[1]);
  x86::Gp worth = cc_.newGpq("worth");
  const auto decide = [&] {
    x86::Xmm total = cc_.newXmmSd(), trips = cc_.newXmmSd();
    x86::Gp count = cc_.newGpq();
    cc_.vmovsd(total, constant64(std::bit_cast<uint64_t>(known)));
    for (const ir::Op* loop : counted) {
      cc_.mov(count, gp(loop->operands[1]));
      cc_.sub(count, gp(loop->operands[0]));
      cc_.vxorps(trips, trips, trips);
      cc_.vcvtsi2sd(trips, trips, count);
      cc_.vmulsd(total, total, trips);
    }
    cc_.xor_(worth.r32(), worth.r32());
    cc_.vucomisd(total, constant64(std::bit_cast<uint64_t>(least)));
    cc_.seta(worth.r8());
  };
  for (size_t d = 1; d <= depth(); ++d) {
    if (level(d).loop != top) continue;
    hoist(d, decide);
    return worth;
  }
  decide();
  return worth;
}

void Function::note_streamed(x86::Gp flag) {
  if (!streamed_.hasBase()) {
    streamed_ = cc_.newStack(4, 4);
    streamed_.setSize(4);
    hoist(0, [&] { cc_.mov(streamed_, 0); });
  }
  cc_.or_(streamed_, flag.r32());
}

}  // namespace appy::cpu
