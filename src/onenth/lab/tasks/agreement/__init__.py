"""Subject-verb agreement: is the verb that comes next singular or plural? (Linzen et al. 2016)"""

from onenth.lab.tasks.agreement.task import AGREEMENT

__all__ = ["AGREEMENT"]
