"""The course, section 1: noise in queries, and PATE."""

# %%
import numpy as np
import torch

import syft as sy
from syft.frameworks.torch.dp import pate

torch.manual_seed(0)
np.random.seed(0)
db = (torch.rand(1000) > 0.5).float()


def sensitivity(query, database):
    full = query(database)
    distances = [abs(query(torch.cat((database[:i], database[i + 1 :]))) - full) for i in range(0, len(database), 50)]
    return max(distances)


assert float(sensitivity(lambda database: database.sum(), db)) == 1.0


# %%
def laplacian_mechanism(database, query, sensitivity, epsilon):
    noise = torch.tensor(np.random.laplace(0, sensitivity / epsilon, 1))
    return query(database) + noise


noisy = laplacian_mechanism(db, lambda database: database.sum(), 1, 0.5)
assert abs(noisy.item() - db.sum().item()) < 40
noisy

# %%
num_teachers, num_examples, num_labels = 10, 20, 10
preds = (np.random.rand(num_teachers, num_examples) * num_labels).astype(int)
preds[:, 0:10] *= 0
indices = (np.random.rand(num_examples) * num_labels).astype(int)
data_dep_eps, data_ind_eps = pate.perform_analysis(
    teacher_preds=preds, indices=indices, noise_eps=0.1, delta=1e-5, moments=20
)
assert data_dep_eps <= data_ind_eps
data_dep_eps, data_ind_eps

# %%
torch_dep, torch_ind = pate.perform_analysis_torch(
    torch.from_numpy(preds), torch.from_numpy(indices), noise_eps=0.1, delta=1e-5, moments=20
)
assert abs(float(torch_dep) - data_dep_eps) < 1e-3 and abs(float(torch_ind) - data_ind_eps) < 1e-3
