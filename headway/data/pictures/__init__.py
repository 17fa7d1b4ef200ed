"""Pictures: from files to arrays, and from arrays to patches. Needs Pillow (`pip install headway[pictures]`), no torch.

files.py       read_picture(): one file, bounded before it is decoded; find_pictures(): those of a folder
labelled.py    a folder a class, or a TSV of paths and labels ─► LabelledData
transforms.py  fit_picture(): to the size that a model reads; cut_patches(): its patches; PictureSettings
augment.py     random crops, mirror images, turns and colours, for training

loading.py     PictureLoader: the patches of a picture, decoded when they are needed

file ─ read_picture ─► image of Pillow ─ fit_picture ─► (H, W, C) uint8 ─ cut_patches ─► (S, C·P·P) float32, grid
"""
