"""What a caller is told where p.grad cannot be looked at: what happened, why it cannot count, and
the line to write instead."""

from typing import NamedTuple, Optional


class Refusal(NamedTuple):
    """`why` there is no average in p.grad; `other`: the argument of DistributedOptimizer with which
    there is one."""

    why: str
    other: str

    def looked(self, name: str) -> str:
        """Somebody reads or changes a p.grad, perhaps to clip it."""
        return (
            f"{name}.grad cannot be used: {self.why}; clip with DistributedOptimizer(..., clip_norm=1.0), "
            f"change gradients with p.register_hook(), or use {self.other}"
        )

    def replaced(self, name: str) -> str:
        """p.grad = None, or another tensor."""
        return (
            f"{name}.grad was set to None or replaced between backward() and step(), which has no effect: {self.why}; "
            f"change gradients with p.register_hook(), or use {self.other}"
        )

    def twice(self, name: str) -> str:
        """A second backward pass."""
        return (
            f"backward ran twice before step() ({name}): {self.why}; "
            f"write `with opt.no_sync():` around all passes but the last, or use {self.other}"
        )

    def kept(self, name: str) -> str:
        """A backward pass, where p.grad is that of the step before."""
        return f"{name}.grad is still that of the last step: {self.why}; call opt.zero_grad() before backward(), or use {self.other}"

    def zeroed(self) -> str:
        """zero_grad() after backward()."""
        return f"zero_grad() between backward() and step(), where the update has begun: call it before backward(), or use {self.other}"


def refusal_of(policy: str, sharded: bool, wire: str, elastic: bool = False) -> Optional[Refusal]:
    """None where every rank has the averages."""
    if sharded:
        return Refusal(f"with policy='{policy}' no rank has all averaged gradients, and updates begin during backward()", "policy='dear'")
    if wire != "f32":
        return Refusal(f"with wire='{wire}' averaged gradients are in buffers of {wire}, not in p.grad", "wire='f32'")
    if elastic:
        return Refusal("with elastic=True averaged gradients are not in p.grad: it is kept until the step is done on all ranks", "elastic=False")
    return None
