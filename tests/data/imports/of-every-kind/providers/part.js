process.env.SHOP_URL;
