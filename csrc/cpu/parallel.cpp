#include "cpu/function.h"
#include "runtime/poll.h"
namespace appy::cpu {
bool Function::can_outline(const ir::Op&) const { return false; }
void Function::parallel_loop(const ir::Op&, const Bounds&, std::span<const x86::Reg>) {}
void Function::emit_outlined(const Outlined&) {}
int64_t poll_slow(Context*) { return runtime::poll() ? static_cast<int64_t>(runtime::Status::interrupted) : 0; }
}
