"""Meta-World: 50 manipulation tasks of a simulated Sawyer arm, from the package `metaworld` (an optional extra).

`facts` names the tasks without importing anything heavy, `task` plays whole episodes, `env` is the same as a
Gymnasium step environment. `simulator`, `sawyer` and `arithmetic` make Meta-World's own classes faster without
changing a number.
"""
